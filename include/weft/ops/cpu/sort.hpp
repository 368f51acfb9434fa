// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/sort.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>

/// CPU kernels of sorts along an axis, and of gathers and scatters along it.
namespace weft::detail {

/// Outputs: values and indices. The outputs determine how many are sorted.
template <class T>
class sort_kernel final : public kernel {
 public:
  sort_kernel(const prepare_context& p, std::size_t axis, direction order)
      : in_(p.input_slots[0]),
        values_(p.output_slots[0]),
        indices_(p.output_slots[1]),
        name_(p.node.op->name),
        rows_(p.inputs[0].extents, axis),
        first_(static_cast<std::size_t>(p.outputs[0].extents[axis])),
        direction_(order) {
    const std::size_t rows = first_ ? rows_.rows() : 0;
    // Each chunk has its own scratch memory, which limits their number.
    constexpr std::size_t max_chunks = 16;
    chunks_ = {rows, rows * rows_.extent, 4096};
    if (chunks_.count > max_chunks) chunks_.count = max_chunks;
    scratch_.resize(chunks_.count * device::sort_scratch(rows_.extent, first_));
  }
  void run(const kernel_context& f) override {
    const std::size_t scratch = device::sort_scratch(rows_.extent, first_);
    chunks_.run(f, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
      device::sort_rows(rows_, first_, direction_, reinterpret_cast<const T*>(f.buffers[in_]),
                        reinterpret_cast<T*>(f.buffers[values_]), reinterpret_cast<std::int32_t*>(f.buffers[indices_]),
                        scratch_.data() + chunk * scratch, begin, end);
    });
  }
  std::size_t memory_bytes() const override { return scratch_.memory_bytes(); }
  std::string describe() const override { return str_cat({name_, " ", first_, " of ", rows_.extent}); }

 private:
  std::uint32_t in_, values_, indices_;
  const char* name_;
  axis_rows rows_;
  std::size_t first_;
  direction direction_;
  device::chunks chunks_;
  sequence<device::sort_entry<sort_key<T>>> scratch_;
};

/// Inputs: x, and indices along the axis. `Back`: the transpose; the output determines its extents.
template <class T, bool Back>
class along_kernel final : public kernel {
 public:
  along_kernel(const prepare_context& p, std::size_t axis)
      : in_{p.input_slots[0], p.input_slots[1]},
        out_(p.output_slots[0]),
        name_(p.node.op->name),
        rows_((Back ? p.outputs[0] : p.inputs[0]).extents, axis),
        count_(static_cast<std::size_t>(p.inputs[1].extents[axis])),
        chunks_(rows_.groups(), rows_.rows() * rows_.extent) {}
  void run(const kernel_context& f) override {
    const T* x = reinterpret_cast<const T*>(f.buffers[in_[0]]);
    const auto* indices = reinterpret_cast<const std::int32_t*>(f.buffers[in_[1]]);
    T* y = reinterpret_cast<T*>(f.buffers[out_]);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      if constexpr (Back)
        device::scatter_along(rows_, count_, x, indices, y, begin, end);
      else
        device::gather_along(rows_, count_, x, indices, y, begin, end);
    });
  }
  std::string describe() const override { return str_cat({name_, " ", count_, " of ", rows_.extent}); }

 private:
  std::uint32_t in_[2], out_;
  const char* name_;
  axis_rows rows_;
  std::size_t count_;
  device::chunks chunks_;
};

}  // namespace weft::detail
