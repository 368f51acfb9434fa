// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/define.hpp>

/// Special functions, exponentials and logarithms of other bases, and functions of two numbers that neither overflow
/// nor lose digits on the way, for float and double.
namespace weft {

// clang-format off
/// Returns the second derivative of log |gamma(x)| (tf.math.polygamma(1, x)); see digamma. Has no gradient.
template <Expression X> [[nodiscard]] auto trigamma(const X& x) { return detail::function<formula::trigamma>(x); }
/// Returns 1 - erf(x), accurate for large x, where erf is 1 (tf.math.erfc). 5.5 ulp.
template <Expression X> [[nodiscard]] auto erfc(const X& x) { return detail::function<formula::erfc>(x); }
/// Returns the number whose erf is x (tf.math.erfinv, torch.erfinv): infinite at 1 and -1, and NaN beyond. Branches.
/// Float is computed in double, to 1 ulp; 2 ulp in double.
template <Expression X> [[nodiscard]] auto erfinv(const X& x) { return detail::function<formula::erfinv>(x); }
/// Returns the derivative of log |gamma(x)| (tf.math.digamma): infinite at 0 and NaN at negative integers, as in
/// PyTorch. Branches. Float is computed in double, to 1 ulp of the larger of 1 and the result.
template <Expression X> [[nodiscard]] auto digamma(const X& x) { return detail::function<formula::digamma>(x); }
/// Returns log |gamma(x)| (tf.math.lgamma): infinite at 0 and negative integers. Calls C's function for each element;
/// float is computed in double. Has gradients up to the second order.
template <Expression X> [[nodiscard]] auto lgamma(const X& x) { return detail::function<formula::lgamma>(x); }
/// Returns 2^x (torch.exp2). 1 ulp.
template <Expression X> [[nodiscard]] auto exp2(const X& x) { return detail::function<formula::exp2>(x); }
/// Returns the logarithm to base 2 (torch.log2), exact for powers of 2. 1 ulp; calls C's function for double.
template <Expression X> [[nodiscard]] auto log2(const X& x) { return detail::function<formula::log2>(x); }
/// Returns the logarithm to base 10 (torch.log10), exact for powers of 10. 2 ulp; calls C's function for double.
template <Expression X> [[nodiscard]] auto log10(const X& x) { return detail::function<formula::log10>(x); }
/// Returns sin(pi x) / (pi x), and 1 at 0 (torch.sinc, numpy.sinc). 2.5 ulp, also near its zeros.
template <Expression X> [[nodiscard]] auto sinc(const X& x) { return detail::function<formula::sinc>(x); }
/// Returns the square root of a^2 + b^2, which does not overflow on the way (torch.hypot). Extents broadcast. The
/// gradient at the origin is 0. 2 ulp.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto hypot(const A& a, const B& b) { return detail::function<formula::hypot>(a, b); }
/// Returns log(e^a + e^b), which does not overflow on the way (torch.logaddexp). Extents broadcast.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto logaddexp(const A& a, const B& b) { return detail::function<formula::logaddexp>(a, b); }
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
