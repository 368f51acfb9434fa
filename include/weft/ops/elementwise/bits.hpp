// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/define.hpp>

/// Operations on the bits of integers, and of bool except for shifts and popcount. They have no gradient.
namespace weft {

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
