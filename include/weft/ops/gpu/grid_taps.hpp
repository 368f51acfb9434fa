// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/install.hpp>
#include <weft/ops/images/grid_taps.hpp>

/// GPU kernel that finds the taps of a grid.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

template <class T>
kernel* prepare_grid_taps(const prepare_context& p, device&) {
  const auto a = attributes_of<grid_taps_op<T>>(p.node);
  const shape& grid = p.inputs[0].extents;
  return weft::device::with_grid_mode(a.mode, grid[grid.rank - 1], [&]<interpolation Mode, int Axes>() {
    using w = weft::device::grid_taps<T, Mode, Axes>;
    return make_each(p, "grid_taps", weft::detail::grid_taps_of<T, Mode, Axes>(p, a), grid.elements() / Axes, &w::grid,
                     nullptr, &w::weights, &w::indices);
  });
}

}  // namespace WEFT_GPU_FILE

template <class T>
struct kernels<grid_taps_op<T>> : installed<grid_taps_op<T>, prepare_grid_taps<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
