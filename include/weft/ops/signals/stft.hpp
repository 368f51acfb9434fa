// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>

#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/images/unfold.hpp>
#include <weft/ops/signals/fft.hpp>
#include <weft/tensor/fill.hpp>

/// Short-time Fourier transforms. Not part of <weft/weft.hpp>.
namespace weft {

/// The frames of a short-time transform: of `length` samples, `step` samples apart.
struct stft_options {
  int length;
  int step;
};

/// Frames are cut from `[batch, n]`; length and step must be at least 1, and the length at most n.
template <class Dims, stft_options Options>
struct frames_do_not_fit : mistake<(Dims::rank != 2 || Options.length < 1 || Options.step < 1 ||
                                    (Dims::spec[1] >= 0 && Dims::spec[1] < Options.length))> {};

/// The frames must be those of Length samples, `[batch, (Length - length) / step + 1, last]`.
template <class Dims, int Length, stft_options Options, int Last>
struct frames_are_not_of_signals
    : mistake<(Dims::rank != 3 || Options.length < 1 || Options.step < 1 || Length < Options.length ||
               Dims::spec[1] != (Length - Options.length) / (Options.step < 1 ? 1 : Options.step) + 1 ||
               Dims::spec[2] != Last)> {};

namespace detail {

template <stft_options O>
inline constexpr unfold_options as_windows{.window = size2d(1, O.length), .stride = size2d(1, O.step)};

template <class T, int Length>
tensor<T, dims<Length>> cosine_window(double mid) {
  tensor<T, dims<Length>> w;
  for (int i = 0; i < Length; ++i)
    w.data()[i] = static_cast<T>(mid - (1 - mid) * std::cos(2 * 3.14159265358979323846 * i / Length));
  return w;
}

}  // namespace detail

/// Returns the Hann window of Length elements, 0.5 - 0.5 cos(2 pi i / Length) (tf.signal.hann_window,
/// torch.hann_window).
template <int Length, Element T = float>
[[nodiscard]] tensor<T, dims<Length>> hann_window() {
  return detail::cosine_window<T, Length>(0.5);
}
/// Returns the Hamming window of Length elements, 0.54 - 0.46 cos(2 pi i / Length) (tf.signal.hamming_window).
template <int Length, Element T = float>
[[nodiscard]] tensor<T, dims<Length>> hamming_window() {
  return detail::cosine_window<T, Length>(0.54);
}

/// Returns the frames of signals `[batch, n]`, `[batch, count, length]` (tf.signal.frame): `frame<stft_options{.length
/// = 256, .step = 128}>(x)`. Samples that do not fill a frame are left out.
template <stft_options Options, Expression Expr>
[[nodiscard]] auto frame(const Expr& samples) {
  using mistake = first_mistake<frames_do_not_fit<dims_t<Expr>, Options>, not_floating<value_t<Expr>>>;
  static_assert(
      correct<mistake>,
      "frame: needs signals [batch, n] of float or double, and a length of 1 to n: frame<stft_options{.length "
      "= 256, .step = 128}>(x)");
  return detail::unless<mistake>(samples, [](const auto& x) {
    return squeeze<1>(unfold<detail::as_windows<Options>>(expand_dims<-1>(expand_dims<1>(x))));
  });
}
/// Adds frames `[batch, count, length]` at their places in signals of Length samples, `[batch, Length]`
/// (tf.signal.overlap_and_add): the transpose of frame.
template <int Length, stft_options Options, Expression Expr>
[[nodiscard]] auto overlap_and_add(const Expr& frames) {
  using mistake = first_mistake<frames_are_not_of_signals<dims_t<Expr>, Length, Options, Options.length>,
                                not_floating<value_t<Expr>>>;
  static_assert(correct<mistake>,
                "overlap_and_add: overlap_and_add<n, stft_options{...}>(frames) needs [batch, (n - length) / step + 1, "
                "length] of float or double");
  return detail::unless<mistake>(frames, [](const auto& x) {
    return squeeze<-1>(squeeze<1>(fold<1, Length, detail::as_windows<Options>>(expand_dims<1>(x))));
  });
}

/// Returns the transforms of the frames of signals `[batch, n]`, multiplied by a window, by default hann_window, as
/// real and imaginary parts `[batch, count, length / 2 + 1]` (tf.signal.stft; torch.stft with center=False).
template <stft_options Options, Expression Expr, Expression Window = tensor<value_t<Expr>, dims<Options.length>>>
[[nodiscard]] auto stft(const Expr& samples, const Window& window = hann_window<Options.length, value_t<Expr>>()) {
  using T = value_t<Expr>;
  using mistake =
      first_mistake<frames_do_not_fit<dims_t<Expr>, Options>, not_floating<T>, element_types_differ<T, value_t<Window>>,
                    assigned_extents_differ<dims_t<Window>, dims<Options.length>>>;
  static_assert(correct<mistake>,
                "stft: needs signals [batch, n] of float or double, a length of 1 to n, and a window of the length: "
                "stft<stft_options{.length = 256, .step = 128}>(x)");
  if constexpr (correct<mistake>)
    return rfft(frame<Options>(samples) * window);
  else
    return detail::parts(detail::same_after_mistake(samples), detail::same_after_mistake(samples));
}

/// Returns the signals of Length samples whose stft is closest to the operands (Griffin and Lim, Signal estimation from
/// modified short-time Fourier transform, 1984; torch.istft with center=False): the sum of the frames times the window,
/// divided by the sum of the squared windows. Samples that no window reaches are 0. The window is a tensor.
template <int Length, stft_options Options, Expression Real, Expression Imag>
[[nodiscard]] auto istft(
    const Real& real, const Imag& imag,
    const tensor<value_t<Real>, dims<Options.length>>& window = hann_window<Options.length, value_t<Real>>()) {
  using T = value_t<Real>;
  using mistake = first_mistake<complex_fft_mistake<Real, Imag>,
                                frames_are_not_of_signals<dims_t<Real>, Length, Options, Options.length / 2 + 1>>;
  static_assert(
      correct<mistake>,
      "istft: istft<n, stft_options{...}>(real, imag) needs [batch, (n - length) / step + 1, length / 2 + 1] of "
      "float or double");
  return detail::unless<mistake>(real, imag, [&]<class A>(const A& a, const auto& b) {
    constexpr int count = static_cast<int>(dims_t<A>::spec[1]);
    const auto ones = fill<T, dims<1, count, Options.length>>(1);
    tensor<T, dims<1, Length>> weights = eval(overlap_and_add<Length, Options>(ones * square(window)));
    for (std::size_t i = 0; i < weights.elements(); ++i)
      weights.data()[i] = weights.data()[i] > T(1e-11) ? 1 / weights.data()[i] : T(0);
    return materialize(overlap_and_add<Length, Options>(irfft<Options.length>(a, b) * window) * weights);
  });
}

/// The same of the result of stft.
template <int Length, stft_options Options, class Real, class Imag>
[[nodiscard]] auto istft(const complex_parts<Real, Imag>& x) {
  return istft<Length, Options>(x.real, x.imag);
}

}  // namespace weft
