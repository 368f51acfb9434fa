// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/define.hpp>

/// Trigonometric and hyperbolic functions and their inverses, of float and double. Values at infinities, zeros and the
/// ends of the domains are those of C's functions; gradients are 0 if the upstream gradient is 0, even where a
/// derivative is infinite.
namespace weft {

// clang-format off
/// Returns the tangent of an angle in radians (tf.tan); NaN for an infinite angle. 2 ulp.
template <Expression X> [[nodiscard]] auto tan(const X& x) { return detail::function<formula::tan>(x); }
/// Returns the angle in [-pi / 2, pi / 2] whose sine is x (tf.asin); NaN for |x| > 1. 2.5 ulp.
template <Expression X> [[nodiscard]] auto asin(const X& x) { return detail::function<formula::asin>(x); }
/// Returns the angle in [0, pi] whose cosine is x (tf.acos); NaN for |x| > 1. 1.5 ulp.
template <Expression X> [[nodiscard]] auto acos(const X& x) { return detail::function<formula::acos>(x); }
/// Returns the angle in [-pi / 2, pi / 2] whose tangent is x (tf.atan). 2 ulp.
template <Expression X> [[nodiscard]] auto atan(const X& x) { return detail::function<formula::atan>(x); }
/// Returns the hyperbolic sine (tf.sinh). 2 ulp.
template <Expression X> [[nodiscard]] auto sinh(const X& x) { return detail::function<formula::sinh>(x); }
/// Returns the hyperbolic cosine (tf.cosh). 2.5 ulp.
template <Expression X> [[nodiscard]] auto cosh(const X& x) { return detail::function<formula::cosh>(x); }
/// Returns the number whose hyperbolic sine is x (tf.asinh). 2 ulp.
template <Expression X> [[nodiscard]] auto asinh(const X& x) { return detail::function<formula::asinh>(x); }
/// Returns the number of at least 0 whose hyperbolic cosine is x (tf.acosh); NaN for x < 1. 2.5 ulp.
template <Expression X> [[nodiscard]] auto acosh(const X& x) { return detail::function<formula::acosh>(x); }
/// Returns the number whose hyperbolic tangent is x (tf.atanh): infinite for 1 and -1, NaN beyond. 2 ulp.
template <Expression X> [[nodiscard]] auto atanh(const X& x) { return detail::function<formula::atanh>(x); }
/// Returns the angle in [-pi, pi] of the point (b, a), the signed angle whose tangent is a / b (tf.atan2). Extents
/// broadcast. At the origin, where PyTorch's gradient is NaN, it is 0. 3 ulp.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto atan2(const A& a, const B& b) { return detail::function<formula::atan2>(a, b); }
// clang-format on

}  // namespace weft
