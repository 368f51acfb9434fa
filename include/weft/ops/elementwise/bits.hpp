// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/define.hpp>

/// Operations on the bits of integers, and of bool except for shifts and popcount. They have no gradient.
namespace weft {

namespace math {

template <class T>
WEFT_HOST_DEVICE constexpr T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
WEFT_HOST_DEVICE constexpr T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
WEFT_HOST_DEVICE constexpr T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
WEFT_HOST_DEVICE constexpr T shift_left(T a, T by) {
  constexpr T last = 8 * sizeof(T) - 1;
  return by < T(0) || by > last ? T(0) : static_cast<T>(static_cast<std::uint64_t>(a) << by);
}
template <class T>
WEFT_HOST_DEVICE constexpr T shift_right(T a, T by) {
  constexpr T last = 8 * sizeof(T) - 1;
  return by < T(0) || by > last ? static_cast<T>(a < T(0) ? -1 : 0) : static_cast<T>(a >> by);
}
/// Adds neighbouring bits, then neighbouring sums.
template <class T>
WEFT_HOST_DEVICE constexpr T popcount(T x) {
  auto n = static_cast<std::make_unsigned_t<T>>(x) + std::uint64_t{0};
  n -= (n >> 1) & 0x5555555555555555u;
  n = (n & 0x3333333333333333u) + ((n >> 2) & 0x3333333333333333u);
  n = (n + (n >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<T>((n * 0x0101010101010101u) >> 56);
}
template <class T>
WEFT_HOST_DEVICE constexpr T bit_not(T x) {
  if constexpr (std::is_same_v<T, bool>)
    return !x;
  else
    return static_cast<T>(~x);
}

}  // namespace math

namespace formula {

/// Formulas of integers alone and, with `takes_bool`, of bool.
#define WEFT_BITS(op, form, with_bool, parameters, arguments, dependences)               \
  struct op {                                                                            \
    static constexpr const char* name = #op;                                             \
    static constexpr const char* onnx = form;                                            \
    static constexpr bool cheap = true, not_differentiable = true, integral_only = true; \
    static constexpr bool takes_bool = with_bool;                                        \
    template <class V>                                                                   \
    WEFT_HOST_DEVICE static constexpr V apply parameters {                               \
      if constexpr (detail::is_dependence<V>)                                            \
        return dependences;                                                              \
      else                                                                               \
        return math::op arguments;                                                       \
    }                                                                                    \
  };
WEFT_BITS(bit_and, "And(a, b) | BitwiseAnd(a, b)", true, (V a, V b), (a, b), detail::joined(a, b))
WEFT_BITS(bit_or, "Or(a, b) | BitwiseOr(a, b)", true, (V a, V b), (a, b), detail::joined(a, b))
WEFT_BITS(bit_xor, "Xor(a, b) | BitwiseXor(a, b)", true, (V a, V b), (a, b), detail::joined(a, b))
WEFT_BITS(shift_left, nullptr, false, (V a, V b), (a, b), detail::joined(a, b))
WEFT_BITS(shift_right, nullptr, false, (V a, V b), (a, b), detail::joined(a, b))
WEFT_BITS(bit_not, "Not(a) | BitwiseNot(a)", true, (V x), (x), x)
WEFT_BITS(popcount, nullptr, false, (V x), (x), x)
#undef WEFT_BITS

}  // namespace formula

namespace detail {

/// Operands of operators that ops/misuse.hpp explains for numbers with fractions.
template <class A, class B>
concept operands_of_bits = std::is_integral_v<operand_type<A, B>> && std::is_integral_v<operand_type<B, A>>;

template <class Op, class A, class B>
auto of_bits(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<Op, A, B>>,
                "operators on bits need integers of one type, and extents that broadcast; convert with cast<T>(x)");
  return binary<Op>(a, b);
}

}  // namespace detail

/// Returns a & b for each element (tf.bitwise.bitwise_and); extents broadcast.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>) && detail::operands_of_bits<A, B>
[[nodiscard]] auto operator&(const A& a, const B& b) {
  return detail::of_bits<formula::bit_and>(a, b);
}
/// Returns a | b for each element (tf.bitwise.bitwise_or); extents broadcast.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>) && detail::operands_of_bits<A, B>
[[nodiscard]] auto operator|(const A& a, const B& b) {
  return detail::of_bits<formula::bit_or>(a, b);
}
/// Returns a ^ b for each element (tf.bitwise.bitwise_xor), for bool true if one of the two is; extents broadcast.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>) && detail::operands_of_bits<A, B>
[[nodiscard]] auto operator^(const A& a, const B& b) {
  return detail::of_bits<formula::bit_xor>(a, b);
}
/// Returns a shifted left by b bits for each element (tf.bitwise.left_shift), and 0 unless b is from 0 to the number of
/// bits less 1; extents broadcast.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator<<(const A& a, const B& b) {
  return detail::of_bits<formula::shift_left>(a, b);
}
/// Returns a shifted right by b bits for each element (tf.bitwise.right_shift): repeats the sign of negative numbers.
/// Unless b is from 0 to the number of bits less 1, all bits are shifted out. Extents broadcast.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator>>(const A& a, const B& b) {
  return detail::of_bits<formula::shift_right>(a, b);
}
/// Inverts the bits of each element (tf.bitwise.invert); of bool, negates it.
template <Expression X>
[[nodiscard]] auto operator~(const X& x) {
  static_assert(correct<elementwise_mistake<formula::bit_not, X>>, "operator~: needs integers or bool");
  return detail::unary<formula::bit_not>(x);
}
/// Returns the number of bits that are 1 in each element, in the element type (numpy.bitwise_count).
template <Expression X>
[[nodiscard]] auto popcount(const X& x) {
  static_assert(correct<elementwise_mistake<formula::popcount, X>>, "popcount: needs integers");
  return detail::unary<formula::popcount>(x);
}

}  // namespace weft
