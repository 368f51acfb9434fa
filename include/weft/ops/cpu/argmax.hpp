// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/argmax.hpp>
#include <weft/device/axis_rows.hpp>
#include <weft/ops/operation.hpp>

/// Finds the index of the largest element along an axis.
namespace weft::detail {

template <class T>
class argmax_kernel final : public kernel {
 public:
  argmax_kernel(const prepare_context& p, std::size_t axis)
      : in_(p.input_slots[0]), out_(p.output_slots[0]), rows_(p.inputs[0].extents, axis) {}
  void run(const kernel_context& f) override {
    const T* x = reinterpret_cast<const T*>(f.buffers[in_]);
    auto* to = reinterpret_cast<std::int32_t*>(f.buffers[out_]);
    const std::size_t extent = rows_.extent, inner = rows_.inner;
    for (std::size_t o = 0; o < rows_.outer; ++o, x += extent * inner)
      for (std::size_t i = 0; i < inner; ++i) {
        T largest = device::below_all<T>();
        std::size_t best = 0;
        for (std::size_t k = 0; k < extent; ++k)
          if (const T value = x[k * inner + i]; value > largest) largest = value, best = k;
        *to++ = static_cast<std::int32_t>(best);
      }
  }
  std::string describe() const override { return str_cat({"argmax over ", rows_.extent}); }

 private:
  std::uint32_t in_, out_;
  axis_rows rows_;
};

}  // namespace weft::detail
