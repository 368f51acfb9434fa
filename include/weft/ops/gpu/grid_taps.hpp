// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/each.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/images/grid_taps.hpp>

/// GPU kernel that finds the taps of a grid.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

template <class T, interpolation Mode, int Axes>
class grid_taps_gpu_kernel final : public kernel {
 public:
  grid_taps_gpu_kernel(const prepare_context& p, const weft::detail::grid_attributes& a)
      : taps_(weft::detail::grid_taps_of<T, Mode, Axes>(p, a)),
        slots_{p.input_slots[0], p.output_slots[0], p.output_slots[1]},
        points_(p.inputs[0].extents.elements() / Axes) {}
  void run(const kernel_context& f) override {
    taps_.grid = reinterpret_cast<const T*>(f.buffers[slots_[0]]);
    taps_.weights = reinterpret_cast<T*>(f.buffers[slots_[1]]);
    taps_.indices = reinterpret_cast<std::int32_t*>(f.buffers[slots_[2]]);
    launch_each(*f.queue, "grid_taps", taps_, points_);
  }
  std::string describe() const override { return "grid_taps"; }

 private:
  weft::device::grid_taps<T, Mode, Axes> taps_;
  std::uint32_t slots_[3];
  std::size_t points_;
};

template <class T>
kernel* prepare_grid_taps(const prepare_context& p, device&) {
  const auto a = attributes_of<grid_taps_op<T>>(p.node);
  const shape& grid = p.inputs[0].extents;
  return weft::device::with_grid_mode(a.mode, grid[grid.rank - 1], [&]<interpolation Mode, int Axes>() {
    return static_cast<kernel*>(new grid_taps_gpu_kernel<T, Mode, Axes>(p, a));
  });
}

}  // namespace WEFT_GPU_FILE

template <class T>
struct kernels<grid_taps_op<T>> : installed<grid_taps_op<T>, prepare_grid_taps<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
