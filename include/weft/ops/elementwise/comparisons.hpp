// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/ops/elementwise/call.hpp>
#include <weft/ops/elementwise/formulas_of_symbols.hpp>

/// Comparisons and logic, whose results are tensors of bool.
namespace weft {

namespace detail {

template <class A, class B>
inline constexpr bool is_truth<formula::equal, A, B> = assignable(dims_t<A>::spec, dims_t<B>::spec);
template <class A, class B>
inline constexpr bool is_truth<formula::not_equal, A, B> = is_truth<formula::equal, A, B>;
template <class A>
inline constexpr bool is_truth<formula::logical_not, A> = is_truth_operand<A>;
template <class A, class B>
inline constexpr bool is_truth<formula::logical_and, A, B> = is_truth_operand<A> && is_truth_operand<B>;
template <class A, class B>
inline constexpr bool is_truth<formula::logical_or, A, B> = is_truth_operand<A> && is_truth_operand<B>;

/// True if two comparisons have extents that do not broadcast, so that `&&` and `||` reduce each to a bool.
template <class A, class B>
inline constexpr bool truths_of_other_extents = false;
template <Expression A, Expression B>
  requires(is_truth_operand<A> && is_truth_operand<B> && !A::symbolic && !B::symbolic)
inline constexpr bool truths_of_other_extents<A, B> = !Broadcastable<dims_t<A>, dims_t<B>>;

/// True for tensors whose extents can be equal at run time but do not broadcast, such as `[2, 3]` and `[batch, 3]`:
/// `==` and `!=` then compare the tensors as a whole.
template <class A, class B>
inline constexpr bool compares_as_a_whole = false;
template <Expression A, Expression B>
  requires(!A::symbolic && !B::symbolic && std::is_same_v<value_t<A>, value_t<B>>)
inline constexpr bool compares_as_a_whole<A, B> =
    !Broadcastable<dims_t<A>, dims_t<B>> && assignable(dims_t<A>::spec, dims_t<B>::spec);

template <class A, class B>
bool equal_elements(const A& a, const B& b) {
  if constexpr (A::operations > 0) {
    return equal_elements(eval(a), b);
  } else if constexpr (B::operations > 0) {
    return equal_elements(a, eval(b));
  } else {
    const auto *x = a.data(), *const end = x + a.elements(), *y = b.data();
    if (!(a.extents() == b.extents())) return false;
    for (; x != end; ++x, ++y)
      if (!(*x == *y)) return false;
    return true;
  }
}

template <class X>
bool is_true(const X& x) {
  if constexpr (is_literal<X>) {
    return x.value;
  } else {
    return is_true_as(x);
  }
}
template <class Op, class D, class Dev, class A, class B>
bool is_true_as(const expression<Op, bool, D, Dev, A, B>& e) {
  if constexpr (std::is_same_v<Op, formula::logical_and>)
    return is_true(e.a) && is_true(e.b);
  else if constexpr (std::is_same_v<Op, formula::logical_or>)
    return is_true(e.a) || is_true(e.b);
  else
    return equal_elements(e.a, e.b) == std::is_same_v<Op, formula::equal>;
}
template <class Op, class D, class Dev, class A>
bool is_true_as(const expression<Op, bool, D, Dev, A>& e) {
  return !is_true(e.a);
}

}  // namespace detail

/// Returns `a < b` for each element, as bool; false if either is NaN. Extents broadcast (tf.less).
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator<(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::less, A, B>>,
                "operator<: the operands must have extents that broadcast and one element type; convert with "
                "cast<T>(x); write a < b && b < c");
  return detail::binary<formula::less>(a, b);
}
/// Returns `a <= b` for each element, as bool; false if either is NaN. Extents broadcast (tf.less_equal).
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator<=(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::less_equal, A, B>>,
                "operator<=: the operands must have extents that broadcast and one element type; convert with "
                "cast<T>(x); write a < b && b < c");
  return detail::binary<formula::less_equal>(a, b);
}
/// Returns `a > b` for each element, as bool; false if either is NaN. Extents broadcast (tf.greater).
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator>(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::greater, A, B>>,
                "operator>: the operands must have extents that broadcast and one element type; convert with "
                "cast<T>(x); write a < b && b < c");
  return detail::binary<formula::greater>(a, b);
}
/// Returns `a >= b` for each element, as bool; false if either is NaN. Extents broadcast (tf.greater_equal).
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator>=(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::greater_equal, A, B>>,
                "operator>=: the operands must have extents that broadcast and one element type; convert with "
                "cast<T>(x); write a < b && b < c");
  return detail::binary<formula::greater_equal>(a, b);
}
/// Returns `a == b` for each element, as bool; false if either is NaN. Extents broadcast (tf.equal). For tensors,
/// `bool(a == b)` is true if the extents and all elements are equal; for a static and a dynamic extent, the result
/// itself is this bool.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator==(const A& a, const B& b) {
  if constexpr (detail::compares_as_a_whole<A, B>) {
    return detail::equal_elements(a, b);
  } else {
    static_assert(correct<elementwise_mistake<formula::equal, A, B>>,
                  "operator==: needs extents that broadcast and elements of one type: cast<T>(x)");
    return detail::binary<formula::equal>(a, b);
  }
}
/// Returns `a != b` for each element, as bool; true if either is NaN. Extents broadcast (tf.not_equal). For tensors,
/// `bool(a != b)` is true if the extents or any elements differ; see operator==.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator!=(const A& a, const B& b) {
  if constexpr (detail::compares_as_a_whole<A, B>) {
    return !detail::equal_elements(a, b);
  } else {
    static_assert(correct<elementwise_mistake<formula::not_equal, A, B>>,
                  "operator!=: needs extents that broadcast and elements of one type: cast<T>(x)");
    return detail::binary<formula::not_equal>(a, b);
  }
}
/// Returns `a && b` for each element of bool (tf.logical_and). Evaluates both sides.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator&&(const A& a, const B& b) {
  if constexpr (detail::truths_of_other_extents<A, B>) {
    return detail::is_true(a) && detail::is_true(b);
  } else {
    static_assert(correct<elementwise_mistake<formula::logical_and, A, B>>,
                  "operator&&: needs extents that broadcast and elements of bool: x > 0");
    return detail::binary<formula::logical_and>(a, b);
  }
}
/// Returns `a || b` for each element of bool (tf.logical_or). Evaluates both sides.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator||(const A& a, const B& b) {
  if constexpr (detail::truths_of_other_extents<A, B>) {
    return detail::is_true(a) || detail::is_true(b);
  } else {
    static_assert(correct<elementwise_mistake<formula::logical_or, A, B>>,
                  "operator||: needs extents that broadcast and elements of bool: x > 0");
    return detail::binary<formula::logical_or>(a, b);
  }
}
/// Negates each element of bool (tf.logical_not).
template <Expression X>
[[nodiscard]] auto operator!(const X& x) {
  static_assert(correct<elementwise_mistake<formula::logical_not, X>>, "operator!: needs elements of bool: x > 0");
  return detail::unary<formula::logical_not>(x);
}

}  // namespace weft
