// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/grid_taps.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel that finds the taps of a grid; see ops/images/grid_taps.hpp.
WEFT_COLD_BEGIN
namespace weft::detail {

struct grid_attributes {
  attribute<interpolation> mode;
  attribute<image_border> outside;
  attribute<device::grid_units> units;
  attribute<std::int64_t> order[3];  ///< of the derivatives along x, y and z
};

/// Returns the computation of a call, without its addresses. Operand 1 are the images `[batch, (depth,) height, width,
/// channels]`.
template <class T, interpolation Mode, int Axes>
device::grid_taps<T, Mode, Axes> grid_taps_of(const prepare_context& p, const grid_attributes& a) {
  device::grid_taps<T, Mode, Axes> taps{};
  for (std::size_t i = 0; i < Axes; ++i)
    taps.axis[i] = {a.outside, a.units, static_cast<T>(p.inputs[1].extents[Axes - i]),
                    static_cast<int>(std::int64_t{a.order[i]})};
  return taps;
}

template <class T, interpolation Mode, int Axes>
class grid_taps_kernel final : public kernel {
 public:
  grid_taps_kernel(const prepare_context& p, const grid_attributes& a)
      : taps_(grid_taps_of<T, Mode, Axes>(p, a)),
        slots_{p.input_slots[0], p.output_slots[0], p.output_slots[1]},
        chunks_(p.inputs[0].extents.elements() / Axes, p.outputs[0].extents.elements() * 4) {}

  void run(const kernel_context& f) override {
    auto taps = taps_;
    taps.grid = reinterpret_cast<const T*>(f.buffers[slots_[0]]);
    taps.weights = reinterpret_cast<T*>(f.buffers[slots_[1]]);
    taps.indices = reinterpret_cast<std::int32_t*>(f.buffers[slots_[2]]);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      multiversioned_up_to_avx2([&taps, begin, end] {
        std::size_t i = begin;
        for (; i + block <= end; i += block) taps.template points<block>(i);
        for (; i < end; ++i) taps.template points<1>(i);
      });
    });
  }
  std::string describe() const override { return str_cat({"grid_taps of ", chunks_.items}); }

 private:
  static constexpr int block = 16;

  device::grid_taps<T, Mode, Axes> taps_;
  std::uint32_t slots_[3];
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
