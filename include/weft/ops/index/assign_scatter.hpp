// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/index/scatter.hpp>
#include <weft/ops/state.hpp>

/// Writes by index into variables in place. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN
namespace detail {

/// The operands of assign_scatter in the order of those of scatter, whose result is the variable itself.
struct operands_of_scatter {
  explicit operands_of_scatter(const prepare_context& p)
      : inputs{p.inputs[2], p.inputs[1], p.inputs[0]},
        places{p.input_slots[2], p.input_slots[1], p.input_slots[0]},
        context(p) {
    context.inputs = inputs;
    context.input_slots = places;
    context.outputs = inputs + 2;
    context.output_slots = places + 2;
  }
  value_info inputs[3];
  std::uint32_t places[3];
  prepare_context context;
};

}  // namespace detail

/// Operands: the variable, the indices, and the rows.
template <class T>
struct assign_scatter_op {
  static constexpr const char* name = "assign_scatter";
  static constexpr bool writes = true;
  using attributes = typename scatter_op<T>::attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return scatter_op<T>::prepare(detail::operands_of_scatter(p).context, a);
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::update : operand_use::read;
  }
};

WEFT_COLD_END

/// Writes rows into a variable at the indices along an axis, and returns the new value of the variable
/// (tf.scatter_update, tf.scatter_add, scatter_mul, scatter_min, scatter_max): `assign_scatter<0>(table, indices, rows,
/// combine::add)`. Takes the operands of scatter, and only touches the rows at the indices. Like assign, it does not
/// change what other nodes of the step read. Throws out_of_range if an index is out of range; a GPU ignores it.
template <int Axis = 0, class T, class D, class Dev, Expression Indices, class Rows>
auto assign_scatter(const variable_node<T, D, Dev>& target, const Indices& indices, const Rows& rows,
                    combine how = combine::update) {
  using At = dims_t<Indices>;
  using mistake = detail::scatter_mistake<T, Indices, Rows, decltype(detail::find_axis_mistake<D, Axis, At, Rows>())>;
  static_assert(
      correct<mistake>,
      "assign_scatter<axis>(variable, indices, rows): needs an axis of the variable, integer indices, and rows "
      "of its type with the extents of gather<axis>(variable, indices), or a number");
  if constexpr (correct<mistake>) {
    constexpr std::size_t axis = axis_number<D, Axis>;
    using To = detail::gathered<D, At, axis>;
    gpu::compile_kernels<assign_scatter_op, T>();
    const auto i = materialize(indices);
    const auto part = detail::rows_to_write<T, To>(target, To::spec, rows);
    const detail::operand_source sources[] = {detail::source_of(target), detail::source_of(i), detail::source_of(part)};
    const typename assign_scatter_op<T>::attributes how_to{{axis, 0}, how};
    return detail::node_of<variable_node<T, D, Dev>>(detail::record_operation(
        operation_of<assign_scatter_op<T>>, dtype_of<T>, D::spec, detail::attribute_words(how_to), sources, 3));
  } else {
    return detail::after_mistake<T, D>(target);
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/assign_scatter.hpp>
#endif
