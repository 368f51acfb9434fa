// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/special_functions.hpp>
#include <weft/ops/elementwise/define.hpp>

/// Rounding, and quotients and remainders of integers and floating-point numbers. The result of floor_mod has the sign
/// of the divisor, as in TensorFlow and Python, and that of fmod the sign of the dividend, as in C. An integer divided
/// by 0 throws invalid_argument; on a GPU, the quotient is 0 instead. Remainders of floating-point numbers are exact;
/// they call C's function for each element.
namespace weft {

namespace math {

template <class T>
  requires std::is_integral_v<T>
WEFT_HOST_DEVICE T fmod(T a, T b) {
  return static_cast<T>(wrapping(a) - wrapping(formula::divide::apply(a, b)) * wrapping(b));
}
template <class T>
  requires std::is_integral_v<T>
WEFT_HOST_DEVICE T floor_mod(T a, T b) {
  const T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
template <class T>
  requires std::is_integral_v<T>
WEFT_HOST_DEVICE T floor_div(T a, T b) {
  const T q = formula::divide::apply(a, b), r = static_cast<T>(wrapping(a) - wrapping(q) * wrapping(b));
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(q - 1) : q;
}

}  // namespace math

// clang-format off
WEFT_SYMBOLS_1(ceil)
WEFT_SYMBOLS_1(round)
WEFT_SYMBOLS_1(trunc)
WEFT_SYMBOLS_2(floor_div)
WEFT_SYMBOLS_2(floor_mod)
WEFT_SYMBOLS_2(fmod)

WEFT_NODE_FORMULA_1(ceil, "Ceil(a)", true, g * V(0), ceil)
/// Returns the smallest integer not below x, for float or double (tf.math.ceil). The gradient is 0.
template <Expression X> [[nodiscard]] auto ceil(const X& x) { return detail::function<formula::ceil>(x); }
WEFT_NODE_FORMULA_1(round, "Round(a)", true, g * V(0), round)
/// Returns the integer nearest to x, and the even one of two, for float or double (tf.round). The gradient is 0.
template <Expression X> [[nodiscard]] auto round(const X& x) { return detail::function<formula::round>(x); }
WEFT_NODE_FORMULA_1(trunc, "Mul(Sign(a), Floor(Abs(a)))", true, g * V(0), trunc)
/// Returns x without its fraction, for float or double (torch.trunc). The gradient is 0.
template <Expression X> [[nodiscard]] auto trunc(const X& x) { return detail::function<formula::trunc>(x); }
WEFT_NODE_FORMULA_2(floor_div, "Floor(Div(a, b)) | Div(Sub(a, Mod(a, b)), b)", false, numbers, g * V(0), g * V(0), floor_div)
/// Returns the integer q with a = q b + floor_mod(a, b) (tf.math.floordiv, torch.floor_divide). Extents broadcast. The
/// gradient is 0.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto floor_div(const A& a, const B& b) { return detail::function<formula::floor_div>(a, b); }
WEFT_NODE_FORMULA_2(floor_mod, "Sub(a, Mul(Floor(Div(a, b)), b)) | Mod(a, b)", false, numbers, g, -g * math::floor_div(a, b), floor_mod, floor_div)
/// Returns the remainder of a / b with the sign of b (tf.math.floormod, torch.remainder, Python's %). Extents
/// broadcast.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto floor_mod(const A& a, const B& b) { return detail::function<formula::floor_mod>(a, b); }
WEFT_NODE_FORMULA_2(fmod, "Mod<fmod=1>(a, b)", false, numbers, g, -g * math::trunc(a / b), fmod, trunc)
/// Returns the remainder of a / b with the sign of a (tf.truncatemod, torch.fmod). Extents broadcast.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto fmod(const A& a, const B& b) { return detail::function<formula::fmod>(a, b); }
// clang-format on

}  // namespace weft
