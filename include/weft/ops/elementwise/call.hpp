// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/ops/check.hpp>
#include <weft/ops/elementwise/formulas_of_symbols.hpp>
#include <weft/ops/lowering.hpp>

/// Calls of elementwise operations: operands, mistakes, and `elementwise`.

namespace weft {

/// A C++ number of any type as an operand. It converts to the element type of the other operand.
template <class Num>
concept Number = detail::Arithmetic<Num>;

/// An operand of an elementwise operation: a tensor, a tensor_view, a node or an expression, or a C++ number.
template <class X>
concept Operand = Expression<X> || Number<X>;

// ---- mistakes, by name ----

/// The extents of the operands of an elementwise operation do not broadcast.
template <class A, class B>
struct elementwise_shapes_differ : mistake<!detail::broadcastable(A::spec, B::spec)> {};

/// The operation is not defined for this element type.
template <class Op, class T>
struct operation_undefined_for : mistake<!detail::defined_for<Op, T>()> {};

/// The operation has no kernel for this kind of device.
template <class Op, class Device>
struct no_kernel_for_device : mistake<!detail::has_kernel<Op, Device>()> {};

namespace detail {

template <class Op, class T, int Operands>
constexpr bool has_gradient(T v) {
  if constexpr (!std::is_floating_point_v<T> || requires { Op::predicate; } || requires { Op::not_differentiable; })
    return true;
  else if constexpr (Operands == 1)
    return requires { Op::gradient(v, v, v); };
  else
    return requires { Op::gradient_a(v, v, v, v), Op::gradient_b(v, v, v, v); };
}

template <class X>
inline constexpr bool symbolic_operand = false;
template <Expression X>
inline constexpr bool symbolic_operand<X> = X::symbolic;

}  // namespace detail

/// A user's operation in a graph has neither a gradient nor a `not_differentiable` member.
template <class Op, class T, bool Symbolic, int Operands>
struct operation_without_gradient : mistake<Symbolic && !detail::has_gradient<Op, T, Operands>(T{})> {};

namespace detail {

template <class Op, class T>
constexpr auto result_of() {
  if constexpr (requires { Op::predicate; })
    return bool{};
  else
    return T{};
}

template <class Op, class T>
using result_type = decltype(result_of<Op, T>());

/// True if a user's formula is evaluated on symbols. elementwise() evaluates it first, so that errors in the formula
/// appear at the call that names the operation.
template <class Op, class T, bool Symbolic, int Operands>
inline constexpr bool is_differentiated =
    Symbolic && skeleton::may_differentiate<Op> && is_differentiable<result_type<Op, T>> &&
    correct<operation_without_gradient<Op, T, Symbolic, Operands>>;

}  // namespace detail

/// True if the extents of `a + b` and similar operators broadcast.
template <class A, class B>
concept Broadcastable = !elementwise_shapes_differ<A, B>::value;

namespace detail {

[[noreturn]] void refuse_number(bool negative, std::uint64_t magnitude, dtype);

#if WEFT_DEFINITIONS

WEFT_DECL void refuse_number(bool negative, std::uint64_t magnitude, dtype type) {
  throw error(error_code::invalid_argument, "expression",
              {"the number ", negative ? "-" : "", negative ? 0 - magnitude : magnitude, " cannot be represented as ",
               name(type), ", the type of the other operand: use cast<T>(x)"});
}

#endif

/// Converts a number to an element. Throws if an integer changes its value; the types exclude fractions.
template <class T, class Num>
T as_element(Num number) {
  const T t = static_cast<T>(number);
  if constexpr (std::is_integral_v<T> && std::is_integral_v<Num>)
    if (static_cast<Num>(t) != number || (t < T{}) != (number < Num{}))
      refuse_number(number < Num{}, static_cast<std::uint64_t>(number), dtype_of<T>);
  return t;
}

/// The types and extents of a number as an operand.
template <class Num>
struct number_operand {
  using value_type = Num;
  using dims_type = dims<>;
  using device_type = void;
};

template <class X>
using as_typed = typename choose<Number<X>>::template type<number_operand<X>, X>;
template <class X>
using operand_dims = typename as_typed<X>::dims_type;
/// The element type of an operation on both operands; a number takes the type of the other operand.
template <class X, class Other>
using operand_type =
    typename choose<Number<X> && !Number<Other>>::template type<as_typed<Other>, as_typed<X>>::value_type;
template <class A, class B>
using operand_device =
    typename common_device<typename as_typed<A>::device_type, typename as_typed<B>::device_type>::type;

template <class X>
inline constexpr bool holds_integers = false;
template <Expression X>
inline constexpr bool holds_integers<X> = !is_floating(dtype_of<value_t<X>>);

// `a == b` and `a != b` of equal extents, and combinations of these with `!`, `&&` and `||`, convert to bool as a
// whole.
template <class X>
inline constexpr bool is_truth_operand = false;
template <>
inline constexpr bool is_truth_operand<literal<bool>> = true;
template <class Op, class D, class Dev, class... Operands>
inline constexpr bool is_truth_operand<expression<Op, bool, D, Dev, Operands...>> = is_truth<Op, Operands...>;

/// Converts an operand to the form in which an expression over `Dims` stores it. A number becomes a literal of the
/// element type. A sub-expression of other extents is materialized, so that it is not computed again for each element
/// of the broadcast; comparisons that convert to bool are not. All other operands are returned by reference, because a
/// copy increments the reference counts of all its tensors.
template <class T, class Dims, class X>
decltype(auto) as_operand(const X& x) {
  if constexpr (Number<X>)
    return literal<T>{as_element<T>(x)};
  else if constexpr (is_node<X>)
    return static_cast<const node<value_t<X>, dims_t<X>, device_t<X>>&>(x);
  else if constexpr (X::operations > 0 && !std::is_same_v<dims_t<X>, Dims> && !(is_truth_operand<X> && !X::symbolic))
    return materialize(x);
  else
    return (x);
}

template <class Expr>
constexpr std::size_t operations_of_largest(std::size_t so_far = 0) {
  return Expr::operations > so_far ? Expr::operations : so_far;
}
template <class Expr, class Next, class... More>
constexpr std::size_t operations_of_largest(std::size_t so_far = 0) {
  return operations_of_largest<Next, More...>(operations_of_largest<Expr>(so_far));
}

template <std::size_t Operations, class Expr>
decltype(auto) materialize_largest(const Expr& e) {
  if constexpr (Expr::operations == Operations)
    return materialize(e);
  else
    return (e);
}

/// If the expression is too large, materializes its largest operands first. Uses member type names, as make_tensor
/// does.
template <class Op, class T, class Dims, class Device, class... Expr>
auto make_expression(const Expr&... e) {
  using result =
      expression<Op, typename element<T>::value_type, typename Dims::dims_type, typename Device::device_type, Expr...>;
  if constexpr (result::operations > max_operations)
    return make_expression<Op, T, Dims, Device>(materialize_largest<operations_of_largest<Expr...>()>(e)...);
  else
    return result(e...);
}

}  // namespace detail

/// A fraction cannot be combined with integers, which cannot represent it.
template <class A, class B>
struct fraction_meets_integers : mistake<(Number<A> && std::is_floating_point_v<A> && detail::holds_integers<B>) ||
                                         (Number<B> && std::is_floating_point_v<B> && detail::holds_integers<A>)> {};

namespace detail {

template <class Op, class X>
constexpr auto find_mistake() {
  return operation_undefined_for<Op, value_t<X>>{};
}
template <class Op, class A, class B>
constexpr auto find_mistake() {
  using T = operand_type<A, B>;
  using shapes_differ = elementwise_shapes_differ<operand_dims<A>, operand_dims<B>>;
  using types_differ = element_types_differ<T, operand_type<B, A>>;
  if constexpr (shapes_differ::value) {
    return shapes_differ{};
  } else if constexpr (types_differ::value) {
    return types_differ{};
  } else if constexpr (Number<A> || Number<B>) {
    if constexpr (fraction_meets_integers<A, B>::value)
      return fraction_meets_integers<A, B>{};
    else
      return operation_undefined_for<Op, T>{};
  } else {
    return operation_undefined_for<Op, T>{};
  }
}

}  // namespace detail

/// The first mistake in the operands of an elementwise operation, if any: in their extents, then in their element
/// types.
template <class Op, class... Operands>
using elementwise_mistake = decltype(detail::find_mistake<Op, Operands...>());

namespace detail {

template <class Op, class X>
auto unary(const X& x) {
  using T = value_t<X>;
  if constexpr (correct<elementwise_mistake<Op, X>>)
    return make_expression<Op, result_type<Op, T>, dims_t<X>, device_t<X>>(as_operand<T, dims_t<X>>(x));
  else
    return after_mistake<result_type<Op, T>, dims_t<X>>(x);
}

template <class Op, class A, class B>
auto binary(const A& a, const B& b) {
  using T = operand_type<A, B>;
  if constexpr (correct<elementwise_mistake<Op, A, B>>) {
    using D = broadcast_dims<operand_dims<A>, operand_dims<B>>;
    return make_expression<Op, result_type<Op, T>, D, operand_device<A, B>>(as_operand<T, D>(a), as_operand<T, D>(b));
  } else {
    return after_mistake<result_type<Op, T>, operand_dims<A>>(a, b);
  }
}

}  // namespace detail

/// Applies an operation of one operand to every element.
template <class Op, Expression X>
[[nodiscard]] auto elementwise(const X& x) {
  static_assert(correct<elementwise_mistake<Op, X>>,
                "elementwise: the operation is not defined for this element type: cast<T>(x)");
  static_assert(correct<no_kernel_for_device<Op, device_t<X>>>,
                "elementwise: the operation has no kernel for this device");
  static_assert(correct<operation_without_gradient<Op, value_t<X>, X::symbolic, 1>>,
                "write gradient(g, x, y), or declare `static constexpr bool not_differentiable = true;`");
  if constexpr (detail::is_differentiated<Op, value_t<X>, X::symbolic, 1>)
    if (symbol s; false) static_cast<void>(Op::gradient(s, s, Op::apply(s)));
  if constexpr (correct<operation_without_gradient<Op, value_t<X>, X::symbolic, 1>>)
    return detail::unary<Op>(x);
  else
    return detail::after_mistake<detail::result_type<Op, value_t<X>>, dims_t<X>>(x);
}

/// Applies an operation of two operands, which broadcast from the last axis on.
template <class Op, Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto elementwise(const A& a, const B& b) {
  using T = detail::operand_type<A, B>;
  static_assert(
      correct<elementwise_mistake<Op, A, B>>,
      "elementwise: the operands must have extents that broadcast and one element type; convert with cast<T>(x)");
  static_assert(correct<no_kernel_for_device<Op, detail::operand_device<A, B>>>,
                "elementwise: the operation has no kernel for this device");
  constexpr bool symbolic = detail::symbolic_operand<A> || detail::symbolic_operand<B>;
  static_assert(correct<operation_without_gradient<Op, T, symbolic, 2>>,
                "write gradient_a and gradient_b, or declare `static constexpr bool not_differentiable = true;`");
  if constexpr (detail::is_differentiated<Op, T, symbolic, 2>)
    if (symbol x; false) static_cast<void>(Op::gradient_a(x, x, x, Op::gradient_b(x, x, x, Op::apply(x, x))));
  if constexpr (correct<operation_without_gradient<Op, T, symbolic, 2>>)
    return detail::binary<Op>(a, b);
  else
    return detail::after_mistake<detail::result_type<Op, T>, detail::operand_dims<A>>(a, b);
}

}  // namespace weft
