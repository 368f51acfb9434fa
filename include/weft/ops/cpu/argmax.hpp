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
    device::argmax_rows(x, reinterpret_cast<std::int32_t*>(f.buffers[out_]), rows_.outer, rows_.extent, rows_.inner);
  }
  std::string describe() const override { return str_cat({"argmax over ", rows_.extent}); }

 private:
  std::uint32_t in_, out_;
  axis_rows rows_;
};

}  // namespace weft::detail
