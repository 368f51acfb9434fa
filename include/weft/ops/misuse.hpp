// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/arrays/stop_gradient.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/images/convolution.hpp>
#include <weft/ops/images/pooling.hpp>
#include <weft/ops/index/one_hot.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/ops/reduce/argmax.hpp>
#include <weft/ops/reduce/reduce.hpp>
#include <weft/ops/reduce/softmax.hpp>
#include <weft/ops/state.hpp>

/// Overloads that reject operations in the form of other libraries, with advice. Remove an overload when its form
/// becomes supported.
namespace weft {

/// Axes, extents, windows and options must be template arguments.
template <class Dims>
struct extents_are_not_a_template_argument : mistake<true> {};
template <class Dims>
struct option_is_not_a_template_argument : mistake<true> {};
template <class... Type>
struct type_is_not_an_element_type : mistake<true> {};
template <class Num>
struct converted_value_is_a_number : mistake<true> {};

/// The factors of a matrix product must be matrices.
template <class A, class B>
struct factor_is_a_number : mistake<true> {};

/// At least one of the values of select must be a tensor or a node.
template <class... Values>
struct selected_values_are_numbers : mistake<true> {};

/// An elementwise operation must be a type, not a function.
template <class F>
struct operation_is_not_a_type : mistake<true> {};

/// The operator has another meaning in other libraries, or none.
template <class A, class B>
struct operator_not_defined : mistake<true> {};

/// Values of a graph, and expressions over tensors, have no elements until they are evaluated.
template <class Expr>
struct value_is_not_a_range : mistake<true> {};

/// Only a variable can be assigned to.
template <class X>
struct assigned_value_is_not_a_variable : mistake<true> {};

namespace detail {

template <class X>
inline constexpr bool is_variable = false;
template <class T, class D, class Dev>
inline constexpr bool is_variable<variable_node<T, D, Dev>> = true;

}  // namespace detail

// ---- a missing axis, or an axis as an argument ----

template <Expression Expr, class... More>
auto argmax(const Expr& e, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<dims_t<Expr>>>,
                "argmax: the axis is a template argument: argmax<1>(x), argmax<-1>(x) for the last");
  return detail::after_mistake<std::int32_t, dims_t<Expr>>(e);
}
template <Expression Expr, class... More>
auto softmax(const Expr& e, detail::anything, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<dims_t<Expr>>>,
                "softmax: it works along the last axis: softmax(x)");
  return detail::same_after_mistake(e);
}
template <Expression Expr, class... More>
auto log_softmax(const Expr& e, detail::anything, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<dims_t<Expr>>>,
                "log_softmax: it works along the last axis: log_softmax(x)");
  return detail::same_after_mistake(e);
}
template <Expression Expr, class... More>
auto transpose(const Expr& e, detail::anything, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<dims_t<Expr>>>,
                "transpose: axes are template arguments: transpose<1, 0>(x), transpose(x) for all in reverse");
  return detail::same_after_mistake(e);
}

template <Expression Expr, class... More>
auto reverse(const Expr& e, detail::anything, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<dims_t<Expr>>>,
                "reverse: axes are template arguments: reverse<0>(x), reverse(x) for all");
  return detail::same_after_mistake(e);
}

template <Expression Expr, class... More>
auto concat(const Expr& e, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<dims_t<Expr>>>,
                "concat: the axis is a template argument: concat<1>(x, y), concat<-1>(x, y) for the last");
  return detail::same_after_mistake(e);
}
template <Expression Expr, class... More>
auto slice(const Expr& e, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<dims_t<Expr>>>,
                "slice: axis, begin and size are template arguments: slice<1, 0, 3>(x); slice<1, 3>(x, i) begins at a "
                "computed i");
  return detail::same_after_mistake(e);
}
template <Expression Expr, class... More>
auto pad(const Expr& e, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<dims_t<Expr>>>,
                "pad: axis and padding are template arguments: pad<1, 0, 3>(x), one axis at a time");
  return detail::same_after_mistake(e);
}
template <Expression Expr, class... More>
auto split(const Expr& e, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<dims_t<Expr>>>,
                "split: axis and number of parts are template arguments: split<1, 2>(x)");
  return std::tuple{detail::same_after_mistake(e), detail::same_after_mistake(e)};
}

// ---- extents, types and options as arguments ----

template <Expression Expr, class... More>
auto reshape(const Expr& e, detail::anything, const More&...) {
  static_assert(correct<extents_are_not_a_template_argument<dims_t<Expr>>>,
                "reshape: extents are a template argument: reshape<dims<3, 2>>(x)");
  return detail::same_after_mistake(e);
}
template <auto... Extents, Expression Expr>
  requires(sizeof...(Extents) > 0)
auto reshape(const Expr& e) {
  static_assert(correct<extents_are_not_a_template_argument<dims<Extents...>>>,
                "reshape: write the extents as a dims: reshape<dims<3, 2>>(x)");
  return detail::after_mistake<value_t<Expr>, dims<Extents...>>(e);
}
template <class... To, Expression X>
  requires(sizeof...(To) == 0 || !(Element<To> && ...))
auto cast(const X& x) {
  static_assert(correct<type_is_not_an_element_type<To...>>,
                "cast: the element type is a template argument: cast<float>(x)");
  return detail::same_after_mistake(x);
}
template <class To, Number Num>
To cast(Num) {
  static_assert(correct<converted_value_is_a_number<Num>>,
                "cast: converts a tensor or a node; use static_cast<T>(x) for a number");
  return To();
}
template <Expression Expr, class... More>
auto one_hot(const Expr& e, detail::anything, const More&...) {
  static_assert(correct<option_is_not_a_template_argument<dims_t<Expr>>>,
                "one_hot: the depth is a template argument: one_hot<10>(labels)");
  return detail::after_mistake<float, dims_t<Expr>>(e);
}
template <Expression Expr, class... More>
auto max_pool2d(const Expr& e, const More&...) {
  static_assert(correct<option_is_not_a_template_argument<dims_t<Expr>>>,
                "max_pool2d: window, stride and padding are template arguments: max_pool2d<2>(x), max_pool2d<3, 2>(x)");
  return detail::same_after_mistake(e);
}
template <Expression Expr, class... More>
auto avg_pool2d(const Expr& e, const More&...) {
  static_assert(correct<option_is_not_a_template_argument<dims_t<Expr>>>,
                "avg_pool2d: window, stride and padding are template arguments: avg_pool2d<2>(x)");
  return detail::same_after_mistake(e);
}

// ---- matrix products ----

template <Operand A, Operand B>
  requires(Number<A> || Number<B>)
auto matmul(const A& a, const B& b) {
  static_assert(correct<factor_is_a_number<A, B>>,
                "matmul: multiplies two matrices; use x * 3 for an elementwise product");
  if constexpr (Expression<A>)
    return detail::same_after_mistake(a);
  else if constexpr (Expression<B>)
    return detail::same_after_mistake(b);
}
template <Expression A, Expression B, class... More>
auto matmul(const A& a, const B&, detail::anything, const More&...) {
  static_assert(correct<option_is_not_a_template_argument<dims_t<B>>>,
                "matmul: takes two matrices; either can be transposed: matmul<transpose_of::b>(a, b) + c");
  return detail::same_after_mistake(a);
}

// ---- elementwise ----

template <Expression P, Number A, Number B>
auto select(const P& condition, A, B) {
  static_assert(correct<selected_values_are_numbers<A, B>>,
                "select: one of the two values must be a tensor or a node; cast<float>(condition) is 1 or 0");
  return detail::after_mistake<std::common_type_t<A, B>, dims_t<P>>(condition);
}
template <class F, Expression Expr, class... More>
  requires(!Expression<F> && !Number<F>)
auto elementwise(const F&, const Expr& e, const More&...) {
  static_assert(correct<operation_is_not_a_type<F>>,
                "elementwise: the operation must be a type with apply and gradient: elementwise<softplus>(x)");
  return detail::same_after_mistake(e);
}

template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
auto operator%(const A& a, const B& b) {
  static_assert(correct<operator_not_defined<A, B>>,
                "operator%: for remainders include <weft/ops/elementwise/rounding.hpp>: floor_mod(x, y), fmod(x, y)");
  return detail::after_mistake<detail::operand_type<A, B>, detail::operand_dims<A>>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
auto operator^(const A& a, const B& b) {
  static_assert(correct<operator_not_defined<A, B>>,
                "operator^: for powers write pow(x, y), square(x) or x * x; bits: <weft/ops/elementwise/bits.hpp>");
  return detail::after_mistake<detail::operand_type<A, B>, detail::operand_dims<A>>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
auto operator&(const A& a, const B& b) {
  static_assert(correct<operator_not_defined<A, B>>,
                "operator&: join conditions by &&: x > 0 && x < 1; bits: <weft/ops/elementwise/bits.hpp>");
  return detail::after_mistake<detail::operand_type<A, B>, detail::operand_dims<A>>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
auto operator|(const A& a, const B& b) {
  static_assert(correct<operator_not_defined<A, B>>,
                "operator|: combine conditions with ||: x < 0 || x > 1; bits: <weft/ops/elementwise/bits.hpp>");
  return detail::after_mistake<detail::operand_type<A, B>, detail::operand_dims<A>>(a, b);
}

template <Expression A, Operand B>
  requires(A::symbolic || A::operations > 0)
A& operator+=(A& a, const B&) {
  static_assert(correct<operator_not_defined<A, B>>,
                "operator+=: write y = y + x; assign_add writes a variable, in a step");
  return a;
}
template <Expression A, Operand B>
  requires(A::symbolic || A::operations > 0)
A& operator-=(A& a, const B&) {
  static_assert(correct<operator_not_defined<A, B>>,
                "operator-=: write y = y - x; assign_add writes a variable, in a step");
  return a;
}
template <Expression A, Operand B>
  requires(A::symbolic || A::operations > 0)
A& operator*=(A& a, const B&) {
  static_assert(correct<operator_not_defined<A, B>>,
                "operator*=: write y = y * x; assign writes a variable, in a step");
  return a;
}
template <Expression A, Operand B>
  requires(A::symbolic || A::operations > 0)
A& operator/=(A& a, const B&) {
  static_assert(correct<operator_not_defined<A, B>>,
                "operator/=: write y = y / x; assign writes a variable, in a step");
  return a;
}

// ---- values that exist only in a session's run ----

template <Expression Expr>
  requires(Expr::symbolic)
auto eval(const Expr&) {
  static_assert(correct<value_needs_a_session<dims_t<Expr>>>,
                "eval: a session computes a graph's values: session.eval(x)");
  return detail::after_mistake<value_t<Expr>, dims_t<Expr>>();
}
template <Expression Expr>
  requires(!Expr::symbolic)
auto let(const Expr&) {
  static_assert(correct<value_not_in_a_graph<Expr>>, "let: makes a node in a graph; for tensors use eval(x)");
  return node<value_t<Expr>, dims_t<Expr>>(symbol());
}

namespace detail {

/// The minimum that a range-based for loop needs after the mistake. With a real iterator, expressions would be ranges
/// to the standard library, and std::format, for example, would call begin().
template <class Expr>
struct no_iterator {
  const Expr& value;
  const Expr& operator*() const { return value; }
  void operator++() {}
  bool operator!=(const no_iterator&) const { return false; }
};

}  // namespace detail

template <Expression Expr>
  requires(Expr::symbolic || Expr::operations > 0)
detail::no_iterator<Expr> begin(const Expr& e) {
  static_assert(correct<value_is_not_a_range<Expr>>, "a loop needs the elements of a tensor: session.eval(x), eval(x)");
  return {e};
}
template <Expression Expr>
  requires(Expr::symbolic || Expr::operations > 0)
detail::no_iterator<Expr> end(const Expr& e) {
  return {e};
}

template <Expression X, class Expr>
  requires(!detail::is_variable<X>)
auto assign(const X& target, const Expr&) {
  static_assert(correct<assigned_value_is_not_a_variable<X>>,
                "assign: the first argument must be a variable: assign(w, value)");
  return detail::same_after_mistake(target);
}
template <Expression X, class Expr>
  requires(!detail::is_variable<X>)
auto assign_add(const X& target, const Expr&) {
  static_assert(correct<assigned_value_is_not_a_variable<X>>,
                "assign_add: the first argument must be a variable: assign_add(w, value)");
  return detail::same_after_mistake(target);
}

}  // namespace weft
