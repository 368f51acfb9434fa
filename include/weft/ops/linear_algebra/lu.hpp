// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/aliases.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/cpu/lu.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/products/matmul.hpp>

/// Inverses, determinants and linear systems by LU factorization, for one matrix or many. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

/// The inverse of each matrix or, if `transposed`, of its transpose.
template <class T>
struct inverse_op {
  static constexpr const char* name = "inverse";
  struct attributes {
    attribute<bool> transposed;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_lu<detail::lu_kind::inverse, T>(p, a.transposed);
  }
  /// -Y' G Y' or, if transposed, -Y G' Y.
  static void gradient(gradient_context& g, const attributes& a) {
    const symbol y = g.output(0), up = g.upstream();
    const symbol right = matmul<T>(up, y, a.transposed, !a.transposed);
    g.set_gradient(0, -matmul<T>(y, right, !a.transposed, false));
  }
};

/// Names the determinant in its errors, since the program did not request an inverse.
template <class T>
struct inverse_of_determinant_op : inverse_op<T> {
  static constexpr const char* name = "second gradient of determinant";
};

/// The cofactors of each matrix, which are the gradient of its determinant: det(A) times the inverse of A', computed
/// without the inverse if A is singular.
template <class T>
struct cofactors_op {
  static constexpr const char* name = "cofactors";
  static kernel* prepare(const prepare_context& p) { return detail::prepare_lu<detail::lu_kind::cofactors, T>(p); }
  /// With Y the inverse of A': sum(G C) Y - C G' Y. Undefined for a singular matrix.
  static void gradient(gradient_context& g) {
    const std::size_t rank = g.input(0).extents().rank;
    const symbol c = g.output(0), up = g.upstream();
    const symbol y = record<inverse_of_determinant_op<T>>({g.input(0)}, g.input(0).info(), {true});
    g.set_gradient(0, sum(up * c, {rank - 2, rank - 1}, true) * y - matmul<T>(c, matmul<T>(up, y, true)));
  }
};

template <class T>
struct determinant_op {
  static constexpr const char* name = "determinant";
  static constexpr const char* onnx = "Det(a)";
  static kernel* prepare(const prepare_context& p) { return detail::prepare_lu<detail::lu_kind::determinant, T>(p); }
  static void gradient(gradient_context& g) {
    const std::size_t rank = g.input(0).extents().rank;
    g.set_gradient(
        0, expand_dims(g.upstream(), {rank - 2, rank - 1}) * record<cofactors_op<T>>({g.input(0)}, g.input(0).info()));
  }
};

/// Results: the sign and the logarithm.
template <class T>
struct slogdet_op {
  static constexpr const char* name = "slogdet";
  static kernel* prepare(const prepare_context& p) { return detail::prepare_lu<detail::lu_kind::slogdet, T>(p); }
  static void gradient(gradient_context& g) {
    if (!g.has_upstream(1)) return;
    const std::size_t rank = g.input(0).extents().rank;
    g.set_gradient(0, expand_dims(g.upstream(1), {rank - 2, rank - 1}) *
                          record<inverse_op<T>>({g.input(0)}, g.input(0).info(), {true}));
  }
};

/// Inputs: the matrices, transposed or not, and the right sides.
template <class T>
struct solve_op {
  static constexpr const char* name = "solve";
  using attributes = typename inverse_op<T>::attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_lu<detail::lu_kind::solve, T>(p, a.transposed);
  }
  static void gradient(gradient_context& g, const attributes& a) {
    const symbol x = g.output(0);
    const symbol of_b = record<solve_op>({g.input(0), g.upstream()}, g.input(1).info(), {!a.transposed});
    const bool t = a.transposed;
    g.set_gradient(1, of_b);
    if (g.needs_gradient(0)) g.set_gradient(0, -matmul<T>(t ? x : of_b, t ? of_b : x, false, true));
  }
};

WEFT_COLD_END

/// Right sides must have the rows and the leading extents of the matrices: `[..., m, n]` and `[..., m, k]`.
template <class A, class B>
struct right_sides_differ : mistake<A::rank != B::rank || !detail::matmul_fits(A::spec, B::spec, transpose_of::a)> {};

/// The first mistake in square matrices and their right sides, if any.
template <class A, class B>
using system_mistake = first_mistake<matrices_are_not_square<dims_t<A>>, right_sides_differ<dims_t<A>, dims_t<B>>,
                                     element_types_differ<value_t<A>, value_t<B>>, not_floating<value_t<A>>>;

namespace detail {

/// A number for each matrix of x.
template <class T, class X>
auto number_of_matrices(const X& x) {
  constexpr std::size_t rank = dims_t<X>::rank;
  shape extents = extents_of(x);
  extents.rank -= 2;
  return typed_result<T, without_axes<dims_t<X>, std::uint32_t{3} << (rank - 2)>>{extents};
}

}  // namespace detail

/// Returns the inverse of each matrix, `[..., n, n]`, float or double (tf.linalg.inv), by LU factorization with partial
/// pivoting. Throws invalid_argument if a pivot is 0.
template <Expression Expr>
[[nodiscard]] auto inverse(const Expr& e) {
  using T = value_t<Expr>;
  static_assert(correct<square_mistake<Expr>>,
                "inverse: needs square matrices [..., n, n] of float or double: cast<float>(x)");
  return detail::unless<square_mistake<Expr>>(e, [](const auto& x) {
    if constexpr (Expr::symbolic) gpu::compile_kernels<matmul_op, T>();
    return call_operation<inverse_op<T>, T, dims_t<Expr>>(extents_of(x), {false}, x);
  });
}

/// Returns the determinant of each matrix, `[..., n, n]`, float or double (tf.linalg.det). It is 0 if a pivot is 0. The
/// gradient is the matrix of cofactors, even of singular matrices (torch.linalg.det; TensorFlow throws). Second
/// gradients throw invalid_argument if a pivot is 0.
template <Expression Expr>
[[nodiscard]] auto determinant(const Expr& e) {
  using T = value_t<Expr>;
  static_assert(correct<square_mistake<Expr>>,
                "determinant: needs square matrices [..., n, n] of float or double: cast<float>(x)");
  return detail::unless<square_mistake<Expr>>(e, [](const auto& x) {
    if constexpr (Expr::symbolic) gpu::compile_kernels<matmul_op, T>();
    return std::get<0>(call_operation<determinant_op<T>>(std::tuple{detail::number_of_matrices<T>(x)}, {}, x));
  });
}

/// Returns the sign, -1, 0 or 1, and the logarithm of the magnitude of the determinant of each matrix, `[..., n, n]`,
/// float or double (tf.linalg.slogdet): `auto [sign, log_magnitude] = slogdet(a)`. They are 0 and -inf if a pivot is 0;
/// the gradient then throws invalid_argument.
template <Expression Expr>
[[nodiscard]] auto slogdet(const Expr& e) {
  using T = value_t<Expr>;
  static_assert(correct<square_mistake<Expr>>,
                "slogdet: needs square matrices [..., n, n] of float or double: cast<float>(x)");
  if constexpr (correct<square_mistake<Expr>>) {
    if constexpr (Expr::symbolic) gpu::compile_kernels<matmul_op, T>();
    const auto x = materialize(e);
    const auto each = detail::number_of_matrices<T>(x);
    return call_operation<slogdet_op<T>>(std::tuple{each, each}, {}, x);
  } else {
    return std::tuple{detail::after_mistake<T, dims<>>(e), detail::after_mistake<T, dims<>>(e)};
  }
}

/// Solves a x = b for x, with a `[..., n, n]` and b `[..., n, m]`, float or double (tf.linalg.solve): `solve(a, b)`;
/// `solve<transpose_of::a>(a, b)` transposes a. Uses LU factorization with partial pivoting. Throws invalid_argument if
/// a pivot is 0.
template <transpose_of Transposed = transpose_of::none, Expression A, Expression B>
[[nodiscard]] auto solve(const A& a, const B& b) {
  static_assert(Transposed == transpose_of::none || Transposed == transpose_of::a, "solve: only a can be transposed");
  using T = value_t<A>;
  using mistake = system_mistake<A, B>;
  static_assert(correct<mistake>, "solve: needs [..., n, n] and [..., n, m] of float or double: cast<float>(x)");
  return detail::unless<mistake>(a, b, [](const auto& x, const auto& y) {
    if constexpr (A::symbolic || B::symbolic) gpu::compile_kernels<matmul_op, T>();
    return call_operation<solve_op<T>, T, dims_t<B>>(extents_of(y), {Transposed == transpose_of::a}, x, y);
  });
}

}  // namespace weft
