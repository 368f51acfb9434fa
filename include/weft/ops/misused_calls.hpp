// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>
#include <type_traits>

#include <weft/ops/misuse.hpp>

/// Overloads that reject functions and operators with unsupported arguments, with advice. Remove an overload when its
/// call becomes supported.
namespace weft {

// ---- unsupported arguments ----

template <auto Axis, auto... More, Expression Expr>
auto softmax(const Expr& e, detail::anything = {}) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Axis, More...>>,
                "softmax: it works along the last axis: softmax(x)");
  return detail::same_after_mistake(e);
}
template <auto Axis, auto... More, Expression Expr>
auto log_softmax(const Expr& e, detail::anything = {}) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Axis, More...>>,
                "log_softmax: it works along the last axis: log_softmax(x)");
  return detail::same_after_mistake(e);
}
template <auto... Given, Expression Expr>
auto softmax_cross_entropy(const Expr& e, detail::anything = {}, detail::anything = {}, detail::anything = {}) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Given...>>,
                "softmax_cross_entropy: takes logits and labels, and returns a loss for each row: "
                "mean(softmax_cross_entropy(logits, labels))");
  return detail::same_after_mistake(e);
}
template <auto... Given, Expression Expr>
  requires(sizeof...(Given) > 1)
auto argmax(const Expr& e, detail::anything = {}) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Given...>>,
                "argmax: takes one axis and removes it: argmax<1>(x)");
  return detail::after_mistake<std::int32_t, dims_t<Expr>>(e);
}
template <auto Depth, auto Axis, auto... More, Expression Expr>
auto one_hot(const Expr& e, detail::anything = {}) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Depth, Axis, More...>>,
                "one_hot: pass only the depth; one_hot adds the last axis: one_hot<10>(labels)");
  return detail::after_mistake<float, dims_t<Expr>>(e);
}
template <auto...>
auto slice(...) WEFT_DELETED;  // an axis, a begin and a size: slice<1, 0, 3>(x); slice<1, 3>(x, i) begins at i
template <auto...>
auto pad(...) WEFT_DELETED;  // an axis, then the padding in front and at the end: pad<1, 0, 3>(x), one axis at a time
template <auto...>
auto conv2d(...) WEFT_DELETED;  // images and filters: conv2d<conv2d_options{.stride = 2}>(x, w); also pad, dilation
template <auto...>
auto max_pool2d(...) WEFT_DELETED;  // window, stride, padding: max_pool2d<2>(x), max_pool2d<3, 2, padding::same>(x)
template <auto...>
auto avg_pool2d(...) WEFT_DELETED;  // window, stride, padding: avg_pool2d<2>(x), avg_pool2d<3, 2, padding::same>(x)
template <auto...>
auto matmul(...) WEFT_DELETED;  // takes two matrices; either can be transposed: matmul<transpose_of::b>(a, b) + c
template <auto... Given, Expression Expr>
auto stop_gradient(const Expr& e, detail::anything, detail::anything = {}) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Given...>>, "stop_gradient: takes one argument");
  return detail::same_after_mistake(e);
}
template <auto... Given, Expression Expr>
auto select(const Expr& e, detail::anything = {}) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Given...>>,
                "select: takes a condition and two values: select(x > 0, x, 0.0f)");
  return detail::same_after_mistake(e);
}
template <auto... Given, Expression Expr>
auto cast(const Expr& e, detail::anything) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Given...>>,
                "cast: the element type is a template argument: cast<std::int32_t>(x)");
  return detail::same_after_mistake(e);
}
template <class T, class To, Expression Expr>
  requires(!Expression<To>)
auto reshape(const Expr& e) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>>>, "reshape: takes only extents: reshape<dims<3, 2>>(x)");
  return detail::same_after_mistake(e);
}
template <auto... Axis>
auto concat(detail::braces, detail::anything = {}) {
  static_assert(correct<arguments_are_not_taken<dims<>, Axis...>>,
                "concat: takes values one by one, and the axis as a template argument: concat<1>(x, y)");
  return detail::after_mistake<float, dims<>>();
}

template <auto...>
auto leaky_relu(...) WEFT_DELETED;  // alpha is an argument: leaky_relu(x, 0.1f)
template <auto...>
auto elu(...) WEFT_DELETED;  // alpha is an argument: elu(x), elu(x, 0.5f)
template <auto...>
auto gelu(...) WEFT_DELETED;  // takes one value: gelu(x); gelu_tanh(x) is the approximation

// clang-format off
#define WEFT_OPERANDS 1
#define WEFT_NAME abs
#include <weft/ops/misused_function.inc>
#define WEFT_NAME sign
#include <weft/ops/misused_function.inc>
#define WEFT_NAME floor
#include <weft/ops/misused_function.inc>
#define WEFT_NAME sqrt
#include <weft/ops/misused_function.inc>
#define WEFT_NAME exp
#include <weft/ops/misused_function.inc>
#define WEFT_NAME log
#include <weft/ops/misused_function.inc>
#define WEFT_NAME log1p
#include <weft/ops/misused_function.inc>
#define WEFT_NAME expm1
#include <weft/ops/misused_function.inc>
#define WEFT_NAME tanh
#include <weft/ops/misused_function.inc>
#define WEFT_NAME sigmoid
#include <weft/ops/misused_function.inc>
#define WEFT_NAME erf
#include <weft/ops/misused_function.inc>
#define WEFT_NAME sin
#include <weft/ops/misused_function.inc>
#define WEFT_NAME cos
#include <weft/ops/misused_function.inc>
#define WEFT_NAME square
#include <weft/ops/misused_function.inc>
#define WEFT_NAME relu
#include <weft/ops/misused_function.inc>
#define WEFT_NAME softplus
#include <weft/ops/misused_function.inc>
#undef WEFT_OPERANDS
#define WEFT_OPERANDS 2
#define WEFT_NAME pow
#include <weft/ops/misused_function.inc>
#define WEFT_NAME maximum
#include <weft/ops/misused_function.inc>
#define WEFT_NAME minimum
#include <weft/ops/misused_function.inc>
#undef WEFT_OPERANDS
#define WEFT_NAME sum
#include <weft/ops/misused_reduction.inc>
#define WEFT_NAME mean
#include <weft/ops/misused_reduction.inc>
#define WEFT_NAME prod
#include <weft/ops/misused_reduction.inc>
#define WEFT_NAME max
#include <weft/ops/misused_reduction.inc>
#define WEFT_NAME min
#include <weft/ops/misused_reduction.inc>
// clang-format on

// ---- operands that are not tensors ----

/// An operand of an operator must be a number, a tensor or a node.
template <class X>
struct operand_is_not_a_tensor : mistake<true> {};

namespace detail {

template <class X>
inline constexpr bool is_tuple = false;
template <class... X>
inline constexpr bool is_tuple<std::tuple<X...>> = true;

template <class X>
inline constexpr bool is_tuple_of_nodes = false;
template <Expression First, class... More>
inline constexpr bool is_tuple_of_nodes<std::tuple<First, More...>> = true;

/// An array, a string, a vector, or the result of gradients().
template <class X>
concept NoOperand = (!Operand<X>) && (std::is_array_v<X> || is_tuple<X> || Foreign<X>);

template <class X>
auto no_operand(const X& x) {
  if constexpr (Expression<X>)
    return same_after_mistake(x);
  else
    return after_mistake<float, dims<>>();
}

template <class A, class B>
concept OneNoOperand = (Expression<A> && NoOperand<B>) || (NoOperand<A> && Expression<B>) ||
                       (is_tuple_of_nodes<A> && Number<B>) || (Number<A> && is_tuple_of_nodes<B>);

}  // namespace detail
template <class A, class B>
  requires detail::OneNoOperand<A, B>
auto operator+(const A& a, const B&) {
  static_assert(
      correct<operand_is_not_a_tensor<std::conditional_t<Expression<A>, B, A>>>,
      "operator+: takes tensors, nodes and numbers: tensor<T, dims<...>>{...}; unpack gradients with auto [dw] "
      "= gradients(loss, w)");
  return detail::no_operand(a);
}
template <class A, class B>
  requires detail::OneNoOperand<A, B>
auto operator-(const A& a, const B&) {
  static_assert(
      correct<operand_is_not_a_tensor<std::conditional_t<Expression<A>, B, A>>>,
      "operator-: takes tensors, nodes and numbers: tensor<T, dims<...>>{...}; unpack gradients with auto [dw] "
      "= gradients(loss, w)");
  return detail::no_operand(a);
}
template <class A, class B>
  requires detail::OneNoOperand<A, B>
auto operator*(const A& a, const B&) {
  static_assert(
      correct<operand_is_not_a_tensor<std::conditional_t<Expression<A>, B, A>>>,
      "operator*: takes tensors, nodes and numbers: tensor<T, dims<...>>{...}; unpack gradients with auto [dw] "
      "= gradients(loss, w)");
  return detail::no_operand(a);
}
template <class A, class B>
  requires detail::OneNoOperand<A, B>
auto operator/(const A& a, const B&) {
  static_assert(
      correct<operand_is_not_a_tensor<std::conditional_t<Expression<A>, B, A>>>,
      "operator/: takes tensors, nodes and numbers: tensor<T, dims<...>>{...}; unpack gradients with auto [dw] "
      "= gradients(loss, w)");
  return detail::no_operand(a);
}
template <class A, class B>
  requires detail::OneNoOperand<A, B>
auto operator==(const A& a, const B&) {
  static_assert(correct<operand_is_not_a_tensor<std::conditional_t<Expression<A>, B, A>>>,
                "operator==: takes tensors, nodes and numbers: tensor<T, dims<...>>{...}; unpack gradients with auto "
                "[dw] = gradients(loss, w)");
  return detail::no_operand(a);
}
template <class A, class B>
  requires detail::OneNoOperand<A, B>
auto operator<(const A& a, const B&) {
  static_assert(
      correct<operand_is_not_a_tensor<std::conditional_t<Expression<A>, B, A>>>,
      "operator<: takes tensors, nodes and numbers: tensor<T, dims<...>>{...}; unpack gradients with auto [dw] "
      "= gradients(loss, w)");
  return detail::no_operand(a);
}
template <class A, class B>
  requires detail::OneNoOperand<A, B>
auto operator>(const A& a, const B&) {
  static_assert(
      correct<operand_is_not_a_tensor<std::conditional_t<Expression<A>, B, A>>>,
      "operator>: takes tensors, nodes and numbers: tensor<T, dims<...>>{...}; unpack gradients with auto [dw] "
      "= gradients(loss, w)");
  return detail::no_operand(a);
}

template <class X>
  requires(!__is_class(X))
auto let(const X&, detail::anything = {}) {
  static_assert(
      correct<operand_is_not_a_tensor<X>>,
      "let: takes an expression, then a name: let(x * 2, \"twice\"); constant(graph, 0.5f) makes a node of a number");
  return node<float>(symbol());
}

template <auto... Axis, class X>
  requires(detail::NoOperand<X>)
auto concat(const X&, detail::anything = {}) {
  static_assert(correct<operand_is_not_a_tensor<X>>,
                "concat: takes values one by one, and the axis as a template argument: concat<1>(x, y)");
  return detail::after_mistake<float, dims<>>();
}

// A string in place of a type, a name or an option.
template <fixed_string Text, Expression Expr>
auto cast(const Expr& e) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Text>>,
                "cast: the element type is a template argument: cast<double>(x)");
  return detail::same_after_mistake(e);
}
template <auto Window, auto Stride, fixed_string Padding, Expression Expr>
auto max_pool2d(const Expr& e) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Padding>>,
                "max_pool2d: the padding must be padding::same or padding::valid: max_pool2d<3, 2, padding::same>(x)");
  return detail::same_after_mistake(e);
}
template <auto Window, auto Stride, fixed_string Padding, Expression Expr>
auto avg_pool2d(const Expr& e) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Padding>>,
                "avg_pool2d: the padding must be padding::same or padding::valid: avg_pool2d<3, 2, padding::same>(x)");
  return detail::same_after_mistake(e);
}
template <auto Lambda, Expression Expr, class... More>
auto elementwise(const Expr& e, const More&...) {
  static_assert(correct<operation_is_not_a_type<decltype(Lambda)>>,
                "elementwise: the operation must be a type with apply and gradient: elementwise<softplus>(x)");
  return detail::same_after_mistake(e);
}

}  // namespace weft
