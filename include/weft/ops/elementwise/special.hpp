// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/special_functions.hpp>
#include <weft/ops/elementwise/define.hpp>

/// Special functions, exponentials and logarithms of other bases, and functions of two numbers that neither overflow
/// nor lose digits on the way, for float and double.
namespace weft {

WEFT_SYMBOLS_1(trigamma)
namespace formula {

struct trigamma {
  static constexpr const char* name = "trigamma";
  static constexpr bool cheap = false, floating_only = true, not_differentiable = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::trigamma(x);
  }
};

/// The derivative of y = sinc(x), by its series near 0, where the terms of the quotient cancel.
template <class V>
WEFT_HOST_DEVICE constexpr V sinc_slope(V x, V y) {
  const auto near = math::abs(x) < V(0.25);
  const V t = V(3.141592653589793) * math::select(near, x, V(0)), s = t * t;
  const V tail = V(1. / 518918400) - s * (V(1. / 93405312000) - s * V(1. / 22230464256000));
  const V series = V(1. / 30) - s * (V(1. / 840) - s * (V(1. / 45360) - s * (V(1. / 3991680) - s * tail)));
  const V far = (math::cos(V(3.141592653589793) * x) - y) / math::select(near, V(1), x);
  return math::select(near, V(-3.141592653589793) * t * (V(1. / 3) - s * series), far);
}

}  // namespace formula

namespace math {

template <class V>
WEFT_HOST_DEVICE constexpr V logaddexp(V a, V b) {
  const V distance = select(a == b, V(0), abs(a - b));  // also of equal infinities
  return maximum(a, b) + log1p(exp(-distance));
}
template <class V>
WEFT_HOST_DEVICE constexpr V xlogy(V x, V y) {
  return select(y == y, multiply_no_nan(log(y), x), y);
}

}  // namespace math

// clang-format off
/// Returns the second derivative of log |gamma(x)| (tf.math.polygamma(1, x)); see digamma. Has no gradient.
template <Expression X> [[nodiscard]] auto trigamma(const X& x) { return detail::function<formula::trigamma>(x); }

WEFT_SYMBOLS_1(erfc)
WEFT_SYMBOLS_1(erfinv)
WEFT_SYMBOLS_1(digamma)
WEFT_SYMBOLS_1(lgamma)
WEFT_SYMBOLS_1(exp2)
WEFT_SYMBOLS_1(log2)
WEFT_SYMBOLS_1(log10)
WEFT_SYMBOLS_1(sinc)
WEFT_SYMBOLS_2(hypot)

WEFT_NODE_FORMULA_1(erfc, "Sub(1, Erf(a))", false, V(-1.1283791670955126) * g * math::exp_of_minus_square(x), erfc)
/// Returns 1 - erf(x), accurate for large x, where erf is 1 (tf.math.erfc). 5.5 ulp.
template <Expression X> [[nodiscard]] auto erfc(const X& x) { return detail::function<formula::erfc>(x); }
WEFT_NODE_FORMULA_1(erfinv, nullptr, false, V(0.886226925452758) * g / math::exp_of_minus_square(y), erfinv)
/// Returns the number whose erf is x (tf.math.erfinv, torch.erfinv): infinite at 1 and -1, and NaN beyond. Branches.
/// Float is computed in double, to 1 ulp; 2 ulp in double.
template <Expression X> [[nodiscard]] auto erfinv(const X& x) { return detail::function<formula::erfinv>(x); }
WEFT_NODE_FORMULA_1(digamma, nullptr, false, g * math::trigamma(x), digamma, trigamma)
/// Returns the derivative of log |gamma(x)| (tf.math.digamma): infinite at 0 and NaN at negative integers, as in
/// PyTorch. Branches. Float is computed in double, to 1 ulp of the larger of 1 and the result.
template <Expression X> [[nodiscard]] auto digamma(const X& x) { return detail::function<formula::digamma>(x); }
WEFT_NODE_FORMULA_1(lgamma, nullptr, false, g * math::digamma(x), lgamma, digamma, trigamma)
/// Returns log |gamma(x)| (tf.math.lgamma): infinite at 0 and negative integers. Calls C's function for each element;
/// float is computed in double. Has gradients up to the second order.
template <Expression X> [[nodiscard]] auto lgamma(const X& x) { return detail::function<formula::lgamma>(x); }
WEFT_NODE_FORMULA_1(exp2, "Pow(2, a)", false, V(0.6931471805599453) * g * y, exp2)
/// Returns 2^x (torch.exp2). 1 ulp.
template <Expression X> [[nodiscard]] auto exp2(const X& x) { return detail::function<formula::exp2>(x); }
WEFT_NODE_FORMULA_1(log2, "Div(Log(a), 0.6931471805599453)", false, V(1.4426950408889634) * gradient_over(g, x), log2)
/// Returns the logarithm to base 2 (torch.log2), exact for powers of 2. 1 ulp; calls C's function for double.
template <Expression X> [[nodiscard]] auto log2(const X& x) { return detail::function<formula::log2>(x); }
WEFT_NODE_FORMULA_1(log10, "Div(Log(a), 2.302585092994046)", false, V(0.4342944819032518) * gradient_over(g, x), log10)
/// Returns the logarithm to base 10 (torch.log10), exact for powers of 10. 2 ulp; calls C's function for double.
template <Expression X> [[nodiscard]] auto log10(const X& x) { return detail::function<formula::log10>(x); }
WEFT_NODE_FORMULA_1(sinc, "Where(Equal(a, 0), 1, Div(Sin(Mul(a, 3.141592653589793)), Mul(a, 3.141592653589793)))", false, g * sinc_slope(x, y), sinc)
/// Returns sin(pi x) / (pi x), and 1 at 0 (torch.sinc, numpy.sinc). 2.5 ulp, also near its zeros.
template <Expression X> [[nodiscard]] auto sinc(const X& x) { return detail::function<formula::sinc>(x); }
WEFT_NODE_FORMULA_2(hypot, "Sqrt(Add(Mul(a, a), Mul(b, b)))", false, reals, g * math::xdivy(a, y), g * math::xdivy(b, y), hypot)
/// Returns the square root of a^2 + b^2, which does not overflow on the way (torch.hypot). Extents broadcast. The
/// gradient at the origin is 0. 2 ulp.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto hypot(const A& a, const B& b) { return detail::function<formula::hypot>(a, b); }
WEFT_NODE_FORMULA_2(logaddexp, "Add(Max(a, b), Log(Add(1, Exp(Neg(Abs(Sub(a, b)))))))", false, reals, g * math::sigmoid(math::select(a == b, V(0), a - b)),
               g * math::sigmoid(math::select(a == b, V(0), b - a)))
/// Returns log(e^a + e^b), which does not overflow on the way (torch.logaddexp). Extents broadcast.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto logaddexp(const A& a, const B& b) { return detail::function<formula::logaddexp>(a, b); }
WEFT_NODE_FORMULA_2(xlogy, "Where(Equal(a, 0), 0, Mul(a, Log(b)))", false, reals, g * math::log(math::select(a == V(0), math::select(b > V(0), b, V(1)), b)),
               math::xdivy(g * a, b))
/// Returns x log(y) of the operands x and y, and 0 if x is 0, for any y but NaN (torch.xlogy). Extents broadcast.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto xlogy(const A& a, const B& b) { return detail::function<formula::xlogy>(a, b); }
// clang-format on

/// Returns the probability that a standard normal variable is below x (tf.math.ndtr, torch.special.ndtr), as accurate
/// as the rounded x: |x|^2 ulp for negative x.
template <Expression X>
[[nodiscard]] auto ndtr(const X& x) {
  return 0.5 * erfc(-0.7071067811865476 * x);
}

}  // namespace weft
