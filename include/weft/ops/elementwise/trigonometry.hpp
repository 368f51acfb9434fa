// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/special_functions.hpp>
#include <weft/ops/elementwise/define.hpp>

/// Trigonometric and hyperbolic functions and their inverses, of float and double. Values at infinities, zeros and the
/// ends of the domains are those of C's functions; gradients are 0 if the upstream gradient is 0, even where a
/// derivative is infinite.
namespace weft {

// clang-format off
WEFT_SYMBOLS_1(tan)
WEFT_SYMBOLS_1(asin)
WEFT_SYMBOLS_1(acos)
WEFT_SYMBOLS_1(atan)
WEFT_SYMBOLS_1(sinh)
WEFT_SYMBOLS_1(cosh)
WEFT_SYMBOLS_1(asinh)
WEFT_SYMBOLS_1(acosh)
WEFT_SYMBOLS_1(atanh)
WEFT_SYMBOLS_2(atan2)

WEFT_NODE_FORMULA_1(tan, "Tan(a)", false, g * (V(1) + y * y), tan)
/// Returns the tangent of an angle in radians (tf.tan); NaN for an infinite angle. 2 ulp.
template <Expression X> [[nodiscard]] auto tan(const X& x) { return detail::function<formula::tan>(x); }
WEFT_NODE_FORMULA_1(asin, "Asin(a)", false, math::multiply_no_nan(math::rsqrt((V(1) - x) * (V(1) + x)), g), asin)
/// Returns the angle in [-pi / 2, pi / 2] whose sine is x (tf.asin); NaN for |x| > 1. 2.5 ulp.
template <Expression X> [[nodiscard]] auto asin(const X& x) { return detail::function<formula::asin>(x); }
WEFT_NODE_FORMULA_1(acos, "Acos(a)", false, -math::multiply_no_nan(math::rsqrt((V(1) - x) * (V(1) + x)), g), acos)
/// Returns the angle in [0, pi] whose cosine is x (tf.acos); NaN for |x| > 1. 1.5 ulp.
template <Expression X> [[nodiscard]] auto acos(const X& x) { return detail::function<formula::acos>(x); }
WEFT_NODE_FORMULA_1(atan, "Atan(a)", false, g / (V(1) + x * x), atan)
/// Returns the angle in [-pi / 2, pi / 2] whose tangent is x (tf.atan). 2 ulp.
template <Expression X> [[nodiscard]] auto atan(const X& x) { return detail::function<formula::atan>(x); }
WEFT_NODE_FORMULA_1(sinh, "Sinh(a)", false, g * math::cosh(x), sinh, cosh)
/// Returns the hyperbolic sine (tf.sinh). 2 ulp.
template <Expression X> [[nodiscard]] auto sinh(const X& x) { return detail::function<formula::sinh>(x); }
WEFT_NODE_FORMULA_1(cosh, "Cosh(a)", false, g * math::sinh(x), sinh, cosh)
/// Returns the hyperbolic cosine (tf.cosh). 2.5 ulp.
template <Expression X> [[nodiscard]] auto cosh(const X& x) { return detail::function<formula::cosh>(x); }
WEFT_NODE_FORMULA_1(asinh, "Asinh(a)", false, g * math::rsqrt(V(1) + x * x), asinh)
/// Returns the number whose hyperbolic sine is x (tf.asinh). 2 ulp.
template <Expression X> [[nodiscard]] auto asinh(const X& x) { return detail::function<formula::asinh>(x); }
WEFT_NODE_FORMULA_1(acosh, "Acosh(a)", false, math::multiply_no_nan(math::rsqrt((x - V(1)) * (x + V(1))), g), acosh)
/// Returns the number of at least 0 whose hyperbolic cosine is x (tf.acosh); NaN for x < 1. 2.5 ulp.
template <Expression X> [[nodiscard]] auto acosh(const X& x) { return detail::function<formula::acosh>(x); }
WEFT_NODE_FORMULA_1(atanh, "Atanh(a)", false, math::xdivy(g, (V(1) - x) * (V(1) + x)), atanh)
/// Returns the number whose hyperbolic tangent is x (tf.atanh): infinite for 1 and -1, NaN beyond. 2 ulp.
template <Expression X> [[nodiscard]] auto atanh(const X& x) { return detail::function<formula::atanh>(x); }
WEFT_NODE_FORMULA_2(atan2, "Where(And(Equal(a, 0), Equal(b, 0)), 0, Add(Atan(Div(a, b)), Where(Less(b, 0), Where(Less(a, 0), -3.141592653589793, 3.141592653589793), 0)))", false, reals, g * math::xdivy(b, a * a + b * b), -g * math::xdivy(a, a * a + b * b), atan2)
/// Returns the angle in [-pi, pi] of the point (b, a), the signed angle whose tangent is a / b (tf.atan2). Extents
/// broadcast. At the origin, where PyTorch's gradient is NaN, it is 0. 3 ulp.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto atan2(const A& a, const B& b) { return detail::function<formula::atan2>(a, b); }
// clang-format on

}  // namespace weft
