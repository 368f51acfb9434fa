// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/state.hpp>
#include <weft/ops/cpu/unfused.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/fused.hpp>
#include <weft/ops/lowering.hpp>

/// Operations that write variables. Input 0 is the variable. Every other node that reads the variable in the same step
/// sees the value from before the step; the result of the writing node is the new value.
namespace weft {

/// Operands: the variable and its new value.
struct assign_op {
  static constexpr const char* name = "assign";
  static constexpr bool writes = true;
  static constexpr fusion_kind fusion = fusion_kind::assignment;

  static kernel* prepare(const prepare_context& p) { return new detail::assign_kernel(p); }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::write : operand_use::read;
  }
};

/// Operands: the variable and the summand.
template <class T>
struct assign_add_op {
  static constexpr const char* name = "assign_add";
  static constexpr bool writes = true;

  static kernel* prepare(const prepare_context& p) {
    return detail::prepare_add(p, detail::unfused<detail::add_elements<T>>());
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::update : operand_use::read;
  }
};

namespace detail {

template <class V, class Expr>
auto record_write(const operation& op, const V& target, const Expr& what) {
  const auto v = materialize(what);
  const operand_source sources[] = {source_of(target), source_of(v)};
  return node_of<V>(record_operation(op, dtype_of<value_t<V>>, dims_t<V>::spec, {}, sources, 2));
}

// The variable must be a scalar; a fraction cannot be assigned to an integer.
template <class T, class D, class Num>
using assigned_number_mistake =
    first_mistake<assigned_extents_differ<dims<>, D>, fraction_meets_integers<Num, variable_node<T, D>>>;

}  // namespace detail

/// Assigns a tensor or the value of an expression to a variable (tf.assign); returns the new value.
template <class T, class D, class Dev, Expression Expr>
auto assign(const variable_node<T, D, Dev>& target, const Expr& value) {
  static_assert(correct<assignment_mistake<value_t<Expr>, dims_t<Expr>, T, D>>,
                "assign: needs a value of the variable's extents and element type: cast<T>(x)");
  return detail::record_write(operation_of<assign_op>, target, value);
}

/// Assigns a number to a scalar variable. Throws invalid_argument if the variable's type cannot represent the number.
template <class T, class D, class Dev, Number Num>
auto assign(const variable_node<T, D, Dev>& target, Num value) {
  using mistake = detail::assigned_number_mistake<T, D, Num>;
  static_assert(correct<mistake>,
                "assign: a number can be added only to a scalar variable whose type can represent it; assign tensors "
                "to other variables");
  if constexpr (correct<mistake>)
    return assign(target, tensor<T>(detail::as_element<T>(value)));
  else
    return detail::after_mistake<T, D>(target);
}

/// Adds a tensor or the value of an expression to a variable (tf.assign_add); returns the new value.
template <class T, class D, class Dev, Expression Expr>
auto assign_add(const variable_node<T, D, Dev>& target, const Expr& value) {
  static_assert(correct<assignment_mistake<value_t<Expr>, dims_t<Expr>, T, D>>,
                "assign_add: needs a value of the variable's extents and element type: cast<T>(x)");
  gpu::compile_kernels<assign_add_op, T>();
  return detail::record_write(operation_of<assign_add_op<T>>, target, value);
}

/// Adds a number to a scalar variable. Throws invalid_argument if the variable's type cannot represent the number.
template <class T, class D, class Dev, Number Num>
auto assign_add(const variable_node<T, D, Dev>& target, Num value) {
  using mistake = detail::assigned_number_mistake<T, D, Num>;
  static_assert(correct<mistake>,
                "assign_add: a number can be added only to a scalar variable whose type can represent it; add tensors "
                "to other variables");
  if constexpr (correct<mistake>)
    return assign_add(target, tensor<T>(detail::as_element<T>(value)));
  else
    return detail::after_mistake<T, D>(target);
}

/// Subtracts a tensor, the value of an expression or, for a scalar variable, a number (tf.assign_sub); returns the new
/// value.
template <class T, class D, class Dev, class X>
  requires(Expression<X> || Number<X>)
auto assign_sub(const variable_node<T, D, Dev>& target, const X& value) {
  return assign_add(target, -value);
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/state.hpp>
#endif
