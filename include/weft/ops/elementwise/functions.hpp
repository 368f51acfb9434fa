// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/ops/check.hpp>
#include <weft/ops/elementwise/call.hpp>
#include <weft/ops/elementwise/comparisons.hpp>
#include <weft/ops/elementwise/formulas_of_symbols.hpp>
#include <weft/ops/lowering.hpp>

/// Elementwise operations: functions and arithmetic, including in-place arithmetic.
namespace weft {

// ---- arithmetic (tf.add, tf.subtract, tf.multiply, tf.divide, tf.negative) ----

/// Returns a + b for each element; extents broadcast (tf.add). Integers wrap around.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator+(const A& a, const B& b) {
  static_assert(
      correct<elementwise_mistake<formula::add, A, B>>,
      "operator+: the operands must have extents that broadcast and one element type; convert with cast<T>(x)");
  return detail::binary<formula::add>(a, b);
}
/// Returns a - b for each element; extents broadcast (tf.subtract). Integers wrap around.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator-(const A& a, const B& b) {
  static_assert(
      correct<elementwise_mistake<formula::subtract, A, B>>,
      "operator-: the operands must have extents that broadcast and one element type; convert with cast<T>(x)");
  return detail::binary<formula::subtract>(a, b);
}
/// Returns a * b for each element; extents broadcast (tf.multiply). Integers wrap around. For matrix products, see
/// matmul.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator*(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::multiply, A, B>>,
                "operator*: the operands must have extents that broadcast and one element type; convert with "
                "cast<T>(x); matmul multiplies "
                "matrices");
  return detail::binary<formula::multiply>(a, b);
}
/// Returns a / b for each element; extents broadcast (tf.divide; for integers tf.truncatediv). Throws invalid_argument
/// if an integer is divided by 0; on a GPU, the quotient is 0 instead.
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator/(const A& a, const B& b) {
  static_assert(
      correct<elementwise_mistake<formula::divide, A, B>>,
      "operator/: the operands must have extents that broadcast and one element type; convert with cast<T>(x)");
  return detail::binary<formula::divide>(a, b);
}
/// Returns -x for each element (tf.negative). Integers wrap around.
template <Expression X>
[[nodiscard]] auto operator-(const X& x) {
  static_assert(correct<elementwise_mistake<formula::negate, X>>,
                "operator-: needs numbers, not bool, half or bfloat16: cast<float>(x)");
  return detail::unary<formula::negate>(x);
}

// ---- in-place arithmetic on tensors and views ----

namespace detail {

/// True for tensors and views, whose elements can be written in place.
template <class X>
inline constexpr bool owns_or_views = false;
template <class T, class D, class Dev>
inline constexpr bool owns_or_views<tensor<T, D, Dev>> = true;
template <class T, class D>
inline constexpr bool owns_or_views<tensor_view<T, D>> = true;

template <class Op, class A, class B>
constexpr auto find_update_mistake() {
  using X = std::remove_const_t<A>;
  using mistake = elementwise_mistake<Op, X, B>;
  if constexpr (std::is_const_v<std::remove_pointer_t<decltype(std::declval<A&>().data())>>)
    return elements_are_read_only<A>{};
  else if constexpr (!correct<mistake>)
    return mistake{};
  else if constexpr (symbolic_operand<B>)
    return value_needs_a_session<operand_dims<B>>{};
  else
    return assigned_extents_differ<broadcast_dims<dims_t<X>, operand_dims<B>>, dims_t<X>>{};
}

}  // namespace detail

/// The first mistake in `a += b` and similar operators, if any: b must broadcast to the extents of a.
template <class Op, class A, class B>
using update_mistake = decltype(detail::find_update_mistake<Op, A, B>());

namespace detail {

/// Computes a = a Op b in place, except if b reads elements of a at other positions.
template <class Op, class T, class D, class B>
void update(const tensor_view<T, D>& a, const B& b) {
  evaluate(binary<Op>(tensor_view<const T, D>(a), b), a);
}

}  // namespace detail

/// Adds b to the elements of a tensor or a view, in place; b broadcasts to the extents of a. If b reads elements of a,
/// it reads their old values. Throws invalid_argument if run-time extents do not fit.
template <class A, Operand B>
  requires detail::owns_or_views<std::remove_cvref_t<A>>
A&& operator+=(A&& a, const B& b) {
  using mistake = update_mistake<formula::add, std::remove_reference_t<A>, B>;
  static_assert(correct<mistake>, "operator+=: the result must have the extents and type of the left operand");
  if constexpr (correct<mistake>) detail::update<formula::add>(tensor_view(a), b);
  return static_cast<A&&>(a);
}
/// Subtracts b from the elements of a tensor or a view in place; see operator+=.
template <class A, Operand B>
  requires detail::owns_or_views<std::remove_cvref_t<A>>
A&& operator-=(A&& a, const B& b) {
  using mistake = update_mistake<formula::subtract, std::remove_reference_t<A>, B>;
  static_assert(correct<mistake>, "operator-=: the result must have the extents and type of the left operand");
  if constexpr (correct<mistake>) detail::update<formula::subtract>(tensor_view(a), b);
  return static_cast<A&&>(a);
}
/// Multiplies the elements of a tensor or a view by b in place; see operator+=.
template <class A, Operand B>
  requires detail::owns_or_views<std::remove_cvref_t<A>>
A&& operator*=(A&& a, const B& b) {
  using mistake = update_mistake<formula::multiply, std::remove_reference_t<A>, B>;
  static_assert(correct<mistake>, "operator*=: the result must have the extents and type of the left operand");
  if constexpr (correct<mistake>) detail::update<formula::multiply>(tensor_view(a), b);
  return static_cast<A&&>(a);
}
/// Divides the elements of a tensor or a view by b in place; see operator+=.
template <class A, Operand B>
  requires detail::owns_or_views<std::remove_cvref_t<A>>
A&& operator/=(A&& a, const B& b) {
  using mistake = update_mistake<formula::divide, std::remove_reference_t<A>, B>;
  static_assert(correct<mistake>, "operator/=: the result must have the extents and type of the left operand");
  if constexpr (correct<mistake>) detail::update<formula::divide>(tensor_view(a), b);
  return static_cast<A&&>(a);
}

// ---- functions ----

namespace detail {

template <class Op, Expression X>
auto function(const X& x) {
  if constexpr (requires { Op::floating_only; })
    static_assert(correct<elementwise_mistake<Op, X>>, "needs float or double: cast<float>(x)");
  else
    static_assert(correct<elementwise_mistake<Op, X>>, "needs numbers, not bool, half or bfloat16: cast<float>(x)");
  return unary<Op>(x);
}
template <class Op, Operand A, Operand B>
auto function(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<Op, A, B>>,
                "the operands must have extents that broadcast and one element type; convert with cast<T>(x)");
  return binary<Op>(a, b);
}

}  // namespace detail

// exp(x), pow(a, b) and all other functions of the list in ops/elementwise/formulas.hpp.
#define WEFT_FUNCTION_1(name)                  \
  template <Expression X>                      \
  [[nodiscard]] auto name(const X& x) {        \
    return detail::function<formula::name>(x); \
  }
#define WEFT_FUNCTION_2(name)                       \
  template <Operand A, Operand B>                   \
    requires(Expression<A> || Expression<B>)        \
  [[nodiscard]] auto name(const A& a, const B& b) { \
    return detail::function<formula::name>(a, b);   \
  }
#define WEFT_FUNCTION(name, operands) WEFT_FUNCTION_##operands(name)
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_FUNCTION, WEFT_FUNCTION)
#undef WEFT_FUNCTION
#undef WEFT_FUNCTION_1
#undef WEFT_FUNCTION_2

namespace detail {

/// True unless b is an integer: an integer after a tensor or a node is an axis (ops/reduce/reduce.hpp).
template <class A, class B>
concept operands_of_max =
    (Expression<A> && (Expression<B> || std::is_floating_point_v<B>)) || (Number<A> && Expression<B>);

}  // namespace detail

// Overload resolution prefers the first overload of each pair to std::max.

/// maximum(a, b).
template <Expression T>
[[nodiscard]] auto max(const T& a, const T& b) {
  static_assert(correct<elementwise_mistake<formula::maximum, T, T>>,
                "max: the operands must have extents that broadcast and one element type; convert with cast<T>(x)");
  return detail::binary<formula::maximum>(a, b);
}
template <Operand A, Operand B>
  requires detail::operands_of_max<A, B>
[[nodiscard]] auto max(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::maximum, A, B>>,
                "max: the operands must have extents that broadcast and one element type; convert with cast<T>(x)");
  return detail::binary<formula::maximum>(a, b);
}
/// minimum(a, b).
template <Expression T>
[[nodiscard]] auto min(const T& a, const T& b) {
  static_assert(correct<elementwise_mistake<formula::minimum, T, T>>,
                "min: the operands must have extents that broadcast and one element type; convert with cast<T>(x)");
  return detail::binary<formula::minimum>(a, b);
}
template <Operand A, Operand B>
  requires detail::operands_of_max<A, B>
[[nodiscard]] auto min(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::minimum, A, B>>,
                "min: the operands must have extents that broadcast and one element type; convert with cast<T>(x)");
  return detail::binary<formula::minimum>(a, b);
}

/// Returns the elements of `a` where the condition is true, and of `b` elsewhere (tf.where).
template <Expression P, Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto select(const P& condition, const A& a, const B& b) {
  using T = detail::operand_type<A, B>;
  using U = detail::operand_type<B, A>;
  using DA = detail::operand_dims<A>;
  using DB = detail::operand_dims<B>;
  using DP = dims_t<P>;
  static_assert(correct<element_types_differ<value_t<P>, bool>>, "select: the condition must be a tensor of bool");
  static_assert(correct<elementwise_shapes_differ<DA, DB>>, "select: the operands' extents do not broadcast");
  static_assert(correct<element_types_differ<T, U>>, "select: the operands' element types differ: use cast<T>(x)");
  static_assert(correct<fraction_meets_integers<A, B>>, "select: integers cannot hold a fraction: use cast<float>(x)");
  if constexpr (!elementwise_shapes_differ<DA, DB>::value && std::is_same_v<T, U> && std::is_same_v<value_t<P>, bool> &&
                correct<fraction_meets_integers<A, B>>) {
    using DAB = broadcast_dims<DA, DB>;
    static_assert(correct<elementwise_shapes_differ<DP, DAB>>, "select: the condition's extents do not broadcast");
    if constexpr (!elementwise_shapes_differ<DP, DAB>::value) {
      using D = broadcast_dims<DP, DAB>;
      return detail::make_expression<formula::select, T, D, device_t<P>>(
          detail::as_operand<bool, D>(condition), detail::as_operand<T, D>(a), detail::as_operand<T, D>(b));
    } else {
      return detail::after_mistake<T, DAB>(condition, a, b);
    }
  } else {
    return detail::after_mistake<T, DA>(condition, a, b);
  }
}

/// Returns x if positive, alpha * x otherwise (tf.nn.leaky_relu). `alpha` is a number, or a tensor or node whose
/// extents broadcast, such as one slope for each channel (PReLU).
template <Expression X, Operand Alpha = double>
[[nodiscard]] auto leaky_relu(const X& x, const Alpha& alpha = 0.2) {
  return select(x > 0, x, alpha * x);
}

/// Returns x if positive, alpha * (e^x - 1) otherwise (torch.nn.functional.elu). `elu(x)` uses alpha 1.
template <Expression X, Operand Alpha>
[[nodiscard]] auto elu(const X& x, const Alpha& alpha) {
  return select(x > 0, x, alpha * expm1(minimum(x, 0)));
}

/// Converts the elements to another type like static_cast (tf.cast); conversions to half and bfloat16 go through float.
/// Numbers outside the range of an integer type become its nearest number, and NaNs 0, on CPUs and GPUs. The gradient
/// is the upstream gradient, converted back.
template <Element To, Expression X>
[[nodiscard]] auto cast(const X& x) {
  if constexpr (std::is_same_v<To, value_t<X>>)
    return detail::as_operand<To, dims_t<X>>(x);
  else
    return detail::make_expression<formula::cast<To>, To, dims_t<X>, device_t<X>>(
        detail::as_operand<value_t<X>, dims_t<X>>(x));
}

}  // namespace weft
