// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/cpu/assign_slice.hpp>
#include <weft/ops/state.hpp>

/// Assignments to parts of variables in place. Not part of <weft/weft.hpp>.
namespace weft {

/// Writes a value into a variable along an axis, from index `begin` on, and returns the new value of the variable
/// (tf.Variable[...].assign, jax.lax.dynamic_update_slice): for a cache `[8, 512, 64]` and keys `[8, 1, 64]`,
/// `assign_slice<1>(cache, position, keys)` writes one column. `begin` is a number, or integers of std::int32_t or
/// std::int64_t: a scalar, or one index for each element of axis 0, `[8]`. The value has the extents of the variable
/// along all other axes. Like assign, it does not change what other nodes of the step read. Throws out_of_range, before
/// it writes, if the axis has no such elements; on a GPU, which cannot throw, missing elements are not written.
template <int Axis, class T, class D, class Dev, class Index, Expression Expr>
auto assign_slice(const variable_node<T, D, Dev>& target, const Index& begin, const Expr& value);

/// The value must have the variable's element type and, along all other axes, its extents.
template <class T, class D, class U, class V, std::size_t Axis>
struct slice_does_not_fit : mistake<true> {};
template <class T, class D, class V, std::size_t Axis>
  requires(D::rank == V::rank)
struct slice_does_not_fit<T, D, T, V, Axis>
    : mistake<!std::is_same_v<with_extent<V, Axis, 1>, with_extent<D, Axis, 1>> ||
              (D::spec[Axis] >= 0 && V::spec[Axis] > D::spec[Axis])> {};

/// The indices at which slices begin must be integers: a scalar, or one for each element of an axis 0 before the axis.
template <class Index, class D, std::size_t Axis>
struct slices_do_not_begin_at_indices : slice_does_not_begin_at_an_index<Index> {};
template <Expression Index, class D, std::size_t Axis>
  requires(dims_t<Index>::rank == 1 && D::rank > 1 && Axis > 0)
struct slices_do_not_begin_at_indices<Index, D, Axis>
    : mistake<(!std::is_same_v<dims_t<Index>, dims_t<dims<detail::extent_at<D, 0>::value>>> ||
               (!std::is_same_v<value_t<Index>, std::int32_t> && !std::is_same_v<value_t<Index>, std::int64_t>))> {};

WEFT_COLD_BEGIN

/// Operands: the variable, the value, and the index of its first element along the axis, or one for each row of axis 0.
template <class T>
struct assign_slice_op {
  static constexpr const char* name = "assign_slice";
  static constexpr operation_id id{"weft.assign_slice"};
  static constexpr bool writes = true;
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::assign_slice_kernel(p, a.axis);
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::update : operand_use::read;
  }
};

WEFT_COLD_END

template <int Axis, class T, class D, class Dev, class Index, Expression Expr>
auto assign_slice(const variable_node<T, D, Dev>& target, const Index& begin, const Expr& value) {
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, slice_does_not_fit<T, D, value_t<Expr>, dims_t<Expr>, axis>,
                                slices_do_not_begin_at_indices<Index, D, axis>>;
  static_assert(
      correct<mistake>,
      "assign_slice: assign_slice<axis>(variable, begin, value) needs an integer begin or one for each element "
      "of axis 0, and a value of the variable's type whose extents differ only along the axis");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(target);
  } else if constexpr (!Expression<Index>) {
    return assign_slice<Axis>(target, tensor<std::int64_t>(static_cast<std::int64_t>(begin)), value);
  } else {
    gpu::compile_kernels<assign_slice_op, T>();
    const auto part = materialize(value);
    const auto from = materialize(begin);
    const detail::operand_source sources[] = {detail::source_of(target), detail::source_of(part),
                                              detail::source_of(from)};
    return detail::node_of<variable_node<T, D, Dev>>(
        detail::record_operation(operation_of<assign_slice_op<T>>, dtype_of<T>, D::spec,
                                 detail::attribute_words(axis_attribute{axis}), sources, 3));
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/assign_slice.hpp>
#endif
