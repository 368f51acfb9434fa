// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/merge_axes.hpp>
#include <weft/ops/cpu/taps.hpp>
#include <weft/ops/eager.hpp>

/// Weighted sums of rows by index, which sample images at computed positions (grid_sample.hpp, regions.hpp): for rows
/// `[batch, rows, n]`, and weights and std::int32_t indices `[batch, points, taps]`,
/// `y[b, p] = sum over k of weights[b, p, k] * rows[b, indices[b, p, k]]`, `[batch, points, n]`. A tap whose index is
/// out of range, such as -1, adds nothing. The sum is linear in the rows and in the weights, so the gradients of each
/// of the three operations are the other two.
WEFT_COLD_BEGIN
namespace weft {

/// Inputs: rows, weights, indices.
template <class T>
struct taps_op {
  static constexpr const char* name = "sample";
  static constexpr const char* onnx = "sample()";
  static kernel* prepare(const prepare_context& p) {
    const detail::tap_extents e(name, p.inputs[0].extents, p.outputs[0].extents, p.inputs[1].extents);
    return new detail::taps_kernel<T, detail::tap_kind::sums>(p, e, p.input_slots[0], p.output_slots[0],
                                                              p.input_slots[1], p.input_slots[2]);
  }
  static void gradient(gradient_context&);
};

/// Inputs: sums, weights, indices. Output: the gradient of the rows, each of which sums over its taps in their order.
template <class T>
struct taps_transpose_op {
  static constexpr const char* name = "sample_gradient";
  static kernel* prepare(const prepare_context& p) {
    const detail::tap_extents e(name, p.outputs[0].extents, p.inputs[0].extents, p.inputs[1].extents);
    return new detail::taps_kernel<T, detail::tap_kind::transpose>(p, e, p.output_slots[0], p.input_slots[0],
                                                                   p.input_slots[1], p.input_slots[2]);
  }
  static void gradient(gradient_context&);
};

/// Inputs: rows, sums, indices. Output: the gradient of the weights.
template <class T>
struct taps_weights_op {
  static constexpr const char* name = "sample_weights";
  static kernel* prepare(const prepare_context& p) {
    const detail::tap_extents e(name, p.inputs[0].extents, p.inputs[1].extents, p.outputs[0].extents);
    return new detail::taps_kernel<T, detail::tap_kind::weights>(p, e, p.input_slots[0], p.input_slots[1],
                                                                 p.output_slots[0], p.input_slots[2]);
  }
  static void gradient(gradient_context&);
};

template <class T>
void taps_op<T>::gradient(gradient_context& g) {
  const symbol rows = g.input(0), weights = g.input(1), at = g.input(2), up = g.upstream();
  if (g.needs_gradient(0)) g.set_gradient(0, record<taps_transpose_op<T>>({up, weights, at}, rows.info()));
  if (g.needs_gradient(1)) g.set_gradient(1, record<taps_weights_op<T>>({rows, up, at}, weights.info()));
}
template <class T>
void taps_transpose_op<T>::gradient(gradient_context& g) {
  const symbol sums = g.input(0), weights = g.input(1), at = g.input(2), up = g.upstream();
  if (g.needs_gradient(0)) g.set_gradient(0, record<taps_op<T>>({up, weights, at}, sums.info()));
  if (g.needs_gradient(1)) g.set_gradient(1, record<taps_weights_op<T>>({up, sums, at}, weights.info()));
}
template <class T>
void taps_weights_op<T>::gradient(gradient_context& g) {
  const symbol rows = g.input(0), sums = g.input(1), at = g.input(2), up = g.upstream();
  if (g.needs_gradient(0)) g.set_gradient(0, record<taps_transpose_op<T>>({sums, up, at}, rows.info()));
  if (g.needs_gradient(1)) g.set_gradient(1, record<taps_op<T>>({rows, up, at}, sums.info()));
}

namespace detail {

/// Returns the sums under the extents of the points, which may have any number of axes: for rows `[batch, rows, n]` and
/// taps `[batch, h, w, k]`, `[batch, h, w, n]`.
template <class Rows, class Weights, class Indices>
auto sum_taps(const Rows& rows, const Weights& weights, const Indices& at) {
  using T = value_t<Rows>;
  using D = dims_t<Weights>;
  constexpr std::size_t last = D::rank - 1;
  using To = with_extent<D, last, extent_at<dims_t<Rows>, 2>::value>;
  const shape to = resized(extents_of(weights), last, extents_of(rows)[2]);
  if constexpr (D::rank > 3) {
    return under_extents<To>(sum_taps(rows, merge_axes<1>(weights), merge_axes<1>(at)), to);
  } else {
    return call_operation<taps_op<T>, T, To>(to, {}, rows, weights, at);
  }
}

}  // namespace detail
}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/taps.hpp>
#endif
