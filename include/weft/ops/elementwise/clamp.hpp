// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/functions.hpp>

namespace weft {

/// Clips each element to [low, high], which are numbers, or tensors or nodes whose extents broadcast (torch.clamp,
/// numpy.clip); high if low > high. NaN stays NaN. As in TensorFlow, the gradient of an element at a bound passes. With
/// one bound, use maximum or minimum. clip_by_value rejects bounds in the wrong order.
template <Expression X, Operand Low, Operand High>
[[nodiscard]] auto clamp(const X& x, const Low& low, const High& high) {
  return minimum(maximum(x, low), high);
}

/// Returns a + weight (b - a), and exactly b for weight 1 (torch.lerp). Extents broadcast; `weight` is a number, a
/// tensor or a node.
template <Expression A, Operand B, Expression Weight>
[[nodiscard]] auto lerp(const A& a, const B& b, const Weight& weight) {
  return select(weight < 0.5, a + weight * (b - a), b - (1 - weight) * (b - a));
}
template <Expression A, Operand B>
[[nodiscard]] auto lerp(const A& a, const B& b, value_t<A> weight) {
  return lerp(a, b, tensor<value_t<A>, dims<>>{weight});
}

}  // namespace weft
