// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/define.hpp>

/// Rounding, and quotients and remainders of integers and floating-point numbers. The result of floor_mod has the sign
/// of the divisor, as in TensorFlow and Python, and that of fmod the sign of the dividend, as in C. An integer divided
/// by 0 throws invalid_argument; on a GPU, the quotient is 0 instead. Remainders of floating-point numbers are exact;
/// they call C's function for each element.
namespace weft {

// clang-format off
/// Returns the smallest integer not below x, for float or double (tf.math.ceil). The gradient is 0.
template <Expression X> [[nodiscard]] auto ceil(const X& x) { return detail::function<formula::ceil>(x); }
/// Returns the integer nearest to x, and the even one of two, for float or double (tf.round). The gradient is 0.
template <Expression X> [[nodiscard]] auto round(const X& x) { return detail::function<formula::round>(x); }
/// Returns x without its fraction, for float or double (torch.trunc). The gradient is 0.
template <Expression X> [[nodiscard]] auto trunc(const X& x) { return detail::function<formula::trunc>(x); }
/// Returns the integer q with a = q b + floor_mod(a, b) (tf.math.floordiv, torch.floor_divide). Extents broadcast. The
/// gradient is 0.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto floor_div(const A& a, const B& b) { return detail::function<formula::floor_div>(a, b); }
/// Returns the remainder of a / b with the sign of b (tf.math.floormod, torch.remainder, Python's %). Extents
/// broadcast.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto floor_mod(const A& a, const B& b) { return detail::function<formula::floor_mod>(a, b); }
/// Returns the remainder of a / b with the sign of a (tf.truncatemod, torch.fmod). Extents broadcast.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto fmod(const A& a, const B& b) { return detail::function<formula::fmod>(a, b); }
// clang-format on

}  // namespace weft
