// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/define.hpp>

/// Tests for NaN and infinities, which flags like -ffast-math do not remove, and functions that replace such elements.
namespace weft {

// clang-format off
/// Returns true for each NaN of float or double (tf.math.is_nan).
template <Expression X> [[nodiscard]] auto is_nan(const X& x) { return detail::function<formula::is_nan>(x); }
/// Returns true for each infinite element of float or double (tf.math.is_inf).
template <Expression X> [[nodiscard]] auto is_inf(const X& x) { return detail::function<formula::is_inf>(x); }
/// Returns true for each element of float or double that is neither infinite nor NaN (tf.math.is_finite).
template <Expression X> [[nodiscard]] auto is_finite(const X& x) { return detail::function<formula::is_finite>(x); }
// clang-format on

/// Replaces NaN by `nan`, and infinities by `posinf` and `neginf`, by default the largest and the smallest number of
/// the type (torch.nan_to_num). The gradient of a replaced element is 0.
template <Expression X>
[[nodiscard]] auto nan_to_num(const X& x, double nan, double posinf, double neginf) {
  return select(is_nan(x), nan, select(is_inf(x), select(x > 0, posinf, select(x < 0, neginf, x)), x));
}
template <Expression X>
[[nodiscard]] auto nan_to_num(const X& x, double nan = 0) {
  const double most = std::is_same_v<value_t<X>, double> ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
  return nan_to_num(x, nan, most, -most);
}

// clang-format off
/// Returns 0 if a is negative, b if a is 0, and 1 if a is positive; NaN for NaN (numpy.heaviside). Extents broadcast.
/// The gradient with respect to a is 0.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto heaviside(const A& a, const B& b) { return detail::function<formula::heaviside>(a, b); }
// clang-format on

}  // namespace weft
