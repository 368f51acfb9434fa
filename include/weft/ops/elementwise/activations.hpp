// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/elementwise/define.hpp>

/// Activations of torch.nn.functional beyond those of ops/elementwise/functions.hpp. prelu is leaky_relu(x, slopes).
namespace weft {

// clang-format off
/// Returns x tanh(softplus(x)) (Misra, Mish: A Self Regularized Non-Monotonic Activation Function, 2019).
template <Expression X> [[nodiscard]] auto mish(const X& x) { return detail::function<formula::mish>(x); }
/// Returns log(sigmoid(x)), which is x and not -inf for x far below 0 (tf.math.log_sigmoid).
template <Expression X> [[nodiscard]] auto log_sigmoid(const X& x) { return detail::function<formula::log_sigmoid>(x); }
// clang-format on

/// Returns x if positive, alpha * (e^(x / alpha) - 1) otherwise; its slope is continuous (Barron, Continuously
/// Differentiable Exponential Linear Units, 2017).
template <Expression X, Operand Alpha = double>
[[nodiscard]] auto celu(const X& x, const Alpha& alpha = 1) {
  return select(x > 0, x, alpha * expm1(minimum(x, 0) / alpha));
}
/// Clips x to [low, high]. Unlike that of clamp, the gradient at a bound is 0.
template <Expression X>
[[nodiscard]] auto hard_tanh(const X& x, value_t<X> low = -1, value_t<X> high = 1) {
  return select(x <= low, low, select(x >= high, high, x));
}
/// Returns x if it is greater than `limit`, and `value` otherwise; NaN for NaN.
template <Expression X>
[[nodiscard]] auto threshold(const X& x, value_t<X> limit, value_t<X> value) {
  return select(x <= limit, value, x);
}
/// Returns 0 if |x| is at most `limit`, and x otherwise.
template <Expression X>
[[nodiscard]] auto hard_shrink(const X& x, value_t<X> limit = 0.5) {
  return select(abs(x) <= limit, 0, x);
}
/// Moves x towards 0 by `distance`, but not beyond it.
template <Expression X>
[[nodiscard]] auto soft_shrink(const X& x, value_t<X> distance = 0.5) {
  return x - minimum(maximum(x, -distance), distance);
}
/// Returns x - tanh(x).
template <Expression X>
[[nodiscard]] auto tanh_shrink(const X& x) {
  return x - tanh(x);
}
/// Returns the first half of an axis, which is even, times the sigmoid of the second half (Dauphin et al., Language
/// Modeling with Gated Convolutional Networks, 2017): `glu<-1>(x)`, the default.
template <int Axis = -1, Expression X>
[[nodiscard]] auto glu(const X& x) {
  const auto [a, gate] = split<Axis, 2>(x);
  return a * sigmoid(gate);
}

}  // namespace weft
