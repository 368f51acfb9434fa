// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/argmax.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

namespace detail {

/// Throws invalid_argument if the axis is empty but the result is not, in addition to the errors of check_indices.
void check_argmax(const prepare_context&, std::size_t axis);

/// Throws out_of_range if an index along the axis can exceed std::int32_t.
void check_indices(const prepare_context&, std::size_t axis);

}  // namespace detail

template <class T>
struct argmax_op {
  static constexpr const char* name = "argmax";
  static constexpr const char* onnx = "Cast<to=6>(ArgMax<axis=$0, keepdims=0>(a))";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    detail::check_argmax(p, a.axis);
    return new detail::argmax_kernel<T>(p, a.axis);
  }
};

namespace detail {

WEFT_INSTANTIATE(kernel* prepare_declared<argmax_op<float>>(const prepare_context&));

#if WEFT_DEFINITIONS

WEFT_DECL void check_indices(const prepare_context& p, std::size_t axis) {
  const std::int64_t extent = p.inputs[0].extents[axis];
  if (extent > std::int64_t{1} << 31)
    throw error(error_code::out_of_range, p.node.op->name,
                {"axis ", axis, " of ", to_string(p.inputs[0].extents),
                 " has more than 2147483648 elements, the limit of std::int32_t indices: reshape it into shorter rows, "
                 "and compare their results"});
}

WEFT_DECL void check_argmax(const prepare_context& p, std::size_t axis) {
  check_indices(p, axis);
  if (p.inputs[0].extents[axis] == 0 && p.outputs[0].extents.elements() > 0)
    throw error(error_code::invalid_argument, "argmax",
                {"axis ", axis, " of ", to_string(p.inputs[0].extents), " is empty"});
}

#endif

}  // namespace detail

/// Returns the index of the largest element along an axis, std::int32_t, or of the first one if several are equal
/// (tf.argmax). NaNs are skipped. The index is 0 if no element is larger than the lowest finite number. Throws
/// invalid_argument if the axis is empty and out_of_range if it has more than 2^31 elements: at once for tensors, in
/// the step for a graph.
template <int Axis, Expression Expr>
[[nodiscard]] auto argmax(const Expr& e) {
  using D = dims_t<Expr>;
  static_assert(correct<axis_out_of_range<D, Axis>>, "argmax: the axis is out of range");
  if constexpr (axis_out_of_range<D, Axis>::value) {
    return detail::after_mistake<std::int32_t, D>(e);
  } else {
    constexpr std::uint32_t mask = detail::axis_mask<Axis>(D::rank);
    using To = without_axes<D, mask>;
    const auto x = materialize(e);
    const shape extents = detail::selected<detail::pick_kept<mask>>(To::rank, extents_of(x));
    return call_operation<argmax_op<value_t<Expr>>, std::int32_t, To>(extents, {axis_number<D, Axis>}, x);
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/argmax.hpp>
#endif
