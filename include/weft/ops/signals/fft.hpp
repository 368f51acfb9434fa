// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/axes.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/cpu/fft.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

/// Fourier transforms along the last axis, or the last two. Not part of <weft/weft.hpp>. Complex numbers are pairs of
/// arrays of float or double. Transforms run on the CPU.
namespace weft {

/// Complex numbers as two arrays of equal extents: `auto [real, imag] = rfft(x)`.
template <class Real, class Imag>
struct complex_parts {
  Real real;
  Imag imag;
};

/// A transform requires one axis, or two.
template <class Dims, std::size_t Axes>
struct operand_has_too_few_axes : mistake<(Dims::rank < Axes)> {};

/// Real and imaginary parts must have equal extents and element types.
template <class Real, class Imag>
struct complex_parts_differ
    : mistake<!std::is_same_v<value_t<Real>, value_t<Imag>> || !std::is_same_v<dims_t<Real>, dims_t<Imag>>> {};

/// The length of a real transform must be a number.
template <class Dims>
struct length_is_not_a_number : mistake<(Dims::rank == 0 || Dims::spec[Dims::rank - (Dims::rank > 0)] < 0)> {};

/// A real transform of `Length` elements has Length / 2 + 1 results.
template <class Dims, int Length, std::int64_t Given = Dims::spec[Dims::rank - (Dims::rank > 0)]>
struct length_does_not_fit
    : mistake<(Dims::rank > 0 && Given >= 0 && (Length == -1 ? Given < 1 : Length < 0 || Given != Length / 2 + 1))> {};

WEFT_COLD_BEGIN

/// `n`: the length, or -1 for that of the rows. A negative `scale` is divided by the length.
struct fft_attributes {
  attribute<std::int64_t> n;
  attribute<double> scale;
  attribute<bool> inverse, doubled;
};

namespace detail {

template <class T, class Rows>
kernel* prepare_fft(const prepare_context& p, const fft_attributes& a) {
  const shape& x = p.inputs[0].extents;
  const std::int64_t given = a.n, n = given < 0 ? x[x.rank - 1] : given;
  const double scale = a.scale;
  return new fft_kernel<T, Rows>(p, static_cast<std::size_t>(n),
                                 {scale < 0 ? -scale / static_cast<double>(n) : scale, a.inverse, a.doubled});
}

inline symbol upstream_or_zeros(gradient_context& g, std::uint32_t output) {
  const symbol y = g.output(output);
  return g.has_upstream(output) ? g.upstream(output) : fill(*y.builder(), y.info(), 0);
}

}  // namespace detail

/// Inputs and outputs: real and imaginary parts.
template <class T>
struct fft_op {
  static constexpr const char* name = "fft";
  static constexpr const char* onnx = "fourier()";
  using attributes = fft_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_fft<T, detail::fft_rows<T>>(p, a);
  }
  /// A transform's transpose is the inverse times the length.
  static void gradient(gradient_context& g, attributes a) {
    a.inverse = !a.inverse;
    const symbol d = record<fft_op>(sequence<symbol>{detail::upstream_or_zeros(g, 0), detail::upstream_or_zeros(g, 1)},
                                    sequence<value_info>{g.input(0).info(), g.input(1).info()}, a);
    g.set_gradient(0, d);
    g.set_gradient(1, d.output(1));
  }
};

template <class T>
struct irfft_op;

/// Input: real rows. Outputs: real and imaginary parts.
template <class T>
struct rfft_op {
  static constexpr const char* name = "rfft";
  static constexpr const char* onnx = "fourier()";
  using attributes = fft_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_fft<T, detail::real_fft_rows<T, false>>(p, a);
  }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, record<irfft_op<T>>({detail::upstream_or_zeros(g, 0), detail::upstream_or_zeros(g, 1)},
                                          g.input(0).info(), a));
  }
};

/// Inputs: real and imaginary parts. Output: real rows.
template <class T>
struct irfft_op {
  static constexpr const char* name = "irfft";
  static constexpr const char* onnx = "fourier()";
  using attributes = fft_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_fft<T, detail::real_fft_rows<T, true>>(p, a);
  }
  static void gradient(gradient_context& g, const attributes& a) {
    const symbol d = record<rfft_op<T>>(sequence<symbol>{g.upstream()},
                                        sequence<value_info>{g.input(0).info(), g.input(1).info()}, a);
    g.set_gradient(0, d);
    g.set_gradient(1, d.output(1));
  }
};

WEFT_COLD_END

/// The first mistake in the operands of a transform of complex numbers over `Axes` axes, if any.
template <class Real, class Imag, std::size_t Axes = 1>
using complex_fft_mistake = first_mistake<not_floating<value_t<Real>>, complex_parts_differ<Real, Imag>,
                                          operand_has_too_few_axes<dims_t<Real>, Axes>>;
/// The first mistake in the operand of a transform of real numbers over `Axes` axes, if any.
template <class Expr, std::size_t Axes = 1>
using real_fft_mistake = first_mistake<not_floating<value_t<Expr>>, operand_has_too_few_axes<dims_t<Expr>, Axes>,
                                       length_is_not_a_number<dims_t<Expr>>>;
/// The first mistake in the operands of an inverse that yields real numbers, if any.
template <class Real, class Imag, int Length, std::size_t Axes = 1>
using inverse_real_fft_mistake =
    first_mistake<complex_fft_mistake<Real, Imag, Axes>, length_is_not_a_number<dims_t<Real>>,
                  length_does_not_fit<dims_t<Real>, Length>>;

namespace detail {

template <class Real, class Imag>
auto columns_transformed(const Real& real, const Imag& imag, bool inverse);

template <class Real, class Imag>
auto parts(const Real& real, const Imag& imag) {
  return complex_parts<Real, Imag>{real, imag};
}

/// The transform over the last axis, or the last two, of complex numbers.
template <std::size_t Axes, class Real, class Imag>
auto transformed(const Real& real, const Imag& imag, bool inverse) {
  if constexpr (!correct<complex_fft_mistake<Real, Imag, Axes>>) {
    return parts(same_after_mistake(real), same_after_mistake(imag));
  } else if constexpr (Axes == 2) {
    const auto rows = transformed<1>(real, imag, inverse);
    return columns_transformed(rows.real, rows.imag, inverse);
  } else {
    using result = typed_result<value_t<Real>, dims_t<Real>>;
    const auto a = materialize(real);
    const auto b = materialize(imag);
    const auto [y, z] = call_operation<fft_op<value_t<Real>>>(std::tuple{result{extents_of(a)}, result{extents_of(b)}},
                                                              {-1, inverse ? -1.0 : 1.0, inverse, false}, a, b);
    return parts(y, z);
  }
}
/// Along the axis before the last one.
template <class Real, class Imag>
auto columns_transformed(const Real& real, const Imag& imag, bool inverse) {
  const auto y = transformed<1>(swapaxes<-2, -1>(real), swapaxes<-2, -1>(imag), inverse);
  return parts(swapaxes<-2, -1>(y.real), swapaxes<-2, -1>(y.imag));
}

}  // namespace detail

/// Returns the transform of complex rows, y[k] = sum of x[j] exp(-2 pi i j k / n) (tf.signal.fft, numpy.fft.fft): two
/// arrays of the operands' extents. The number n of a row's elements can be named. It is fastest without prime factors
/// above 13.
template <Expression Real, Expression Imag>
[[nodiscard]] auto fft(const Real& real, const Imag& imag) {
  static_assert(correct<complex_fft_mistake<Real, Imag>>,
                "fft: needs real and imaginary parts of equal extents [..., n], float or double");
  return detail::transformed<1>(real, imag, false);
}
template <class Real, class Imag>
[[nodiscard]] auto fft(const complex_parts<Real, Imag>& x) {
  return fft(x.real, x.imag);
}
/// The inverse of fft, which divides by n (tf.signal.ifft).
template <Expression Real, Expression Imag>
[[nodiscard]] auto ifft(const Real& real, const Imag& imag) {
  static_assert(correct<complex_fft_mistake<Real, Imag>>,
                "ifft: needs real and imaginary parts of equal extents [..., n], float or double");
  return detail::transformed<1>(real, imag, true);
}
template <class Real, class Imag>
[[nodiscard]] auto ifft(const complex_parts<Real, Imag>& x) {
  return ifft(x.real, x.imag);
}

/// Returns the transform of real rows `[..., n]`, where n is a number: elements 0 to n / 2, `[..., n / 2 + 1]`
/// (tf.signal.rfft, numpy.fft.rfft). The others would be their conjugates. For another length, pad or slice x.
template <Expression Expr>
[[nodiscard]] auto rfft(const Expr& e) {
  using mistake = real_fft_mistake<Expr>;
  static_assert(correct<mistake>, "rfft: needs float or double [..., n], where n is a number: cast<float>(x)");
  if constexpr (correct<mistake>) {
    using T = value_t<Expr>;
    constexpr std::size_t last = dims_t<Expr>::rank - 1;
    constexpr std::int64_t n = dims_t<Expr>::spec[last];
    const auto x = materialize(e);
    const typed_result<T, with_extent<dims_t<Expr>, last, n / 2 + 1>> half{resized(extents_of(x), last, n / 2 + 1)};
    const auto [y, z] = call_operation<rfft_op<T>>(std::tuple{half, half}, {n, 1.0, false, false}, x);
    return detail::parts(y, z);
  } else {
    return detail::parts(detail::same_after_mistake(e), detail::same_after_mistake(e));
  }
}
/// The inverse of rfft: real rows of `Length` elements from `[..., Length / 2 + 1]` (tf.signal.irfft). By default, the
/// length is even, 2 (m - 1) for m elements. Ignores the imaginary parts of the first and, for an even length, the last
/// element.
template <int Length = -1, Expression Real, Expression Imag>
[[nodiscard]] auto irfft(const Real& real, const Imag& imag) {
  using mistake = inverse_real_fft_mistake<Real, Imag, Length>;
  static_assert(
      correct<mistake>,
      "irfft: irfft<n>(real, imag) needs parts of equal extents [..., n / 2 + 1], float or double, where n is "
      "a number");
  return detail::unless<mistake>(real, imag, []<class A>(const A& a, const auto& b) {
    using D = dims_t<A>;
    constexpr std::size_t last = D::rank - 1;
    constexpr std::int64_t n = Length == -1 ? 2 * (D::spec[last] - 1) : Length;
    return call_operation<irfft_op<value_t<A>>, value_t<A>, with_extent<D, last, n>>(resized(extents_of(a), last, n),
                                                                                     {n, -1.0, true, true}, a, b);
  });
}
template <int Length = -1, class Real, class Imag>
[[nodiscard]] auto irfft(const complex_parts<Real, Imag>& x) {
  return irfft<Length>(x.real, x.imag);
}

/// The transform over the last two axes (tf.signal.fft2d, numpy.fft.fft2).
template <Expression Real, Expression Imag>
[[nodiscard]] auto fft2(const Real& real, const Imag& imag) {
  static_assert(correct<complex_fft_mistake<Real, Imag, 2>>,
                "fft2: needs real and imaginary parts of equal extents [..., m, n], float or double");
  return detail::transformed<2>(real, imag, false);
}
template <class Real, class Imag>
[[nodiscard]] auto fft2(const complex_parts<Real, Imag>& x) {
  return fft2(x.real, x.imag);
}
/// The inverse of fft2 (tf.signal.ifft2d).
template <Expression Real, Expression Imag>
[[nodiscard]] auto ifft2(const Real& real, const Imag& imag) {
  static_assert(correct<complex_fft_mistake<Real, Imag, 2>>,
                "ifft2: needs real and imaginary parts of equal extents [..., m, n], float or double");
  return detail::transformed<2>(real, imag, true);
}
template <class Real, class Imag>
[[nodiscard]] auto ifft2(const complex_parts<Real, Imag>& x) {
  return ifft2(x.real, x.imag);
}
/// The transform of real `[..., m, n]` over both axes, of which the last one becomes n / 2 + 1 (tf.signal.rfft2d).
template <Expression Expr>
[[nodiscard]] auto rfft2(const Expr& x) {
  using mistake = real_fft_mistake<Expr, 2>;
  static_assert(correct<mistake>, "rfft2: needs float or double [..., m, n], where n is a number: cast<float>(x)");
  if constexpr (correct<mistake>) {
    const auto rows = rfft(x);
    return detail::columns_transformed(rows.real, rows.imag, false);
  } else {
    return detail::parts(detail::same_after_mistake(x), detail::same_after_mistake(x));
  }
}
/// The inverse of rfft2 (tf.signal.irfft2d).
template <int Length = -1, Expression Real, Expression Imag>
[[nodiscard]] auto irfft2(const Real& real, const Imag& imag) {
  using mistake = inverse_real_fft_mistake<Real, Imag, Length, 2>;
  static_assert(
      correct<mistake>,
      "irfft2: irfft2<n>(real, imag) needs parts of equal extents [..., m, n / 2 + 1], float or double, where "
      "n is a number");
  return detail::unless<mistake>(real, imag, [](const auto& a, const auto& b) {
    const auto columns = detail::columns_transformed(a, b, true);
    return irfft<Length>(columns.real, columns.imag);
  });
}
template <int Length = -1, class Real, class Imag>
[[nodiscard]] auto irfft2(const complex_parts<Real, Imag>& x) {
  return irfft2<Length>(x.real, x.imag);
}

}  // namespace weft
