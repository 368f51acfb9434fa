// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/cpu/grid_taps.hpp>
#include <weft/ops/images/taps.hpp>

/// Pixels and weights for the positions of a grid; see ops/images/grid_sample.hpp.
WEFT_COLD_BEGIN
namespace weft {

/// Inputs: a grid `[..., axes]`, and images, of which only the extents matter. Outputs: weights and std::int32_t
/// pixels,
/// `[..., taps]`, as ops/images/taps.hpp takes them. The gradient consists of the same operation's next derivatives.
template <class T>
struct grid_taps_op {
  static constexpr const char* name = "grid_taps";
  static constexpr const char* onnx = "grid_taps()";
  using attributes = detail::grid_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    const std::size_t rank = p.inputs[0].extents.rank;
    return device::with_grid_mode(a.mode, p.inputs[0].extents[rank - 1], [&]<interpolation Mode, int Axes>() {
      return static_cast<kernel*>(new detail::grid_taps_kernel<T, Mode, Axes>(p, a));
    });
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 1 ? operand_use::extents : operand_use::read;
  }
  static bool optional(const node_def&, std::uint32_t output) { return output == 1; }

  static void gradient(gradient_context& g, attributes a) {
    const symbol grid = g.input(0);
    if (!g.needs_gradient(0) || !g.has_upstream(0) || a.mode == interpolation::nearest) return;
    const std::size_t last = grid.extents().rank - 1;
    const symbol weights = g.output(0), up = g.upstream(0);
    symbol all;
    for (std::int64_t axis = 0; axis < grid.extents()[last]; ++axis) {
      attributes next = a;
      next.order[axis] = a.order[axis] + 1;
      const symbol slopes =
          record<grid_taps_op>(sequence<symbol>{grid, g.input(1)},
                               sequence<value_info>{weights.info(), {dtype::int32, weights.extents()}}, next);
      const symbol d = record<pad_op>({sum(up * slopes, {last}, true)}, grid.info(), {last, axis});
      all = axis == 0 ? d : all + d;
    }
    g.set_gradient(0, all);
  }
};

namespace detail {

/// Returns the weights and pixels of a grid in images `[batch, (depth,) height, width, channels]`.
template <interpolation Mode, class X, class Grid>
auto find_taps(const X& x, const Grid& grid, image_border outside, device::grid_units units) {
  using T = value_t<Grid>;
  using D = dims_t<Grid>;
  constexpr std::size_t last = D::rank - 1;
  constexpr int taps = device::taps_of(Mode, D::spec[last]);
  using To = with_extent<D, last, taps>;
  if constexpr (X::symbolic || Grid::symbolic) gpu::compile_kernels<gpu::moves, T>();
  const shape to = resized(extents_of(grid), last, taps);
  return call_operation<grid_taps_op<T>>(std::tuple{typed_result<T, To>{to}, typed_result<std::int32_t, To>{to}},
                                         {Mode, outside, units, {0, 0, 0}}, grid, x);
}

}  // namespace detail
}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/grid_taps.hpp>
#endif
