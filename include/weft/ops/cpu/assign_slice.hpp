// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/check_extents.hpp>

/// CPU kernel that writes a slice of a variable.
WEFT_COLD_BEGIN
namespace weft::detail {

/// Copies elements of any type by their size.
class assign_slice_kernel final : public kernel {
 public:
  assign_slice_kernel(const prepare_context& p, std::size_t axis)
      : variable_(p.input_slots[0]),
        part_(p.input_slots[1]),
        begin_(p.input_slots[2]),
        wide_(p.inputs[2].type == dtype::int64),
        begins_(static_cast<std::size_t>(p.inputs[2].extents.elements())),
        axis_(axis),
        whole_(p.inputs[0].extents, axis),
        size_(p.inputs[1].extents[axis]),
        row_(whole_.inner * size_of(p.inputs[0].type)),
        chunks_(whole_.outer, p.inputs[1].bytes(), std::size_t{256} << 10) {
    shape fits = p.inputs[0].extents;
    fits[axis] = size_;
    if (!(fits == p.inputs[1].extents) || size_ > p.inputs[0].extents[axis])
      throw error(error_code::invalid_argument, "assign_slice",
                  {"a value of extents ", to_string(p.inputs[1].extents), " cannot be part of a variable of ",
                   to_string(p.inputs[0].extents), " along axis ", axis});
  }

  void run(const kernel_context& f) override {
    const auto begin_at = [&](std::size_t i) { return device::index_at(f.buffers[begin_], wide_, i); };
    const auto extent = static_cast<std::int64_t>(whole_.extent);
    for (std::size_t i = 0; i < begins_; ++i)
      if (const std::int64_t begin = begin_at(i); begin < 0 || begin > extent - size_)
        throw error(error_code::out_of_range, "assign_slice",
                    {"begin must be in [0, ", extent - size_, "] for ", size_, " of the ", extent, " elements of axis ",
                     axis_, "; it is ", begin});
    const std::size_t part = static_cast<std::size_t>(size_) * row_, whole = whole_.extent * row_;
    chunks_.run(f, [&](std::size_t, std::size_t first, std::size_t end) {
      for (std::size_t o = first; o < end; ++o)
        __builtin_memcpy(
            f.buffers[variable_] + o * whole + static_cast<std::size_t>(begin_at(o * begins_ / whole_.outer)) * row_,
            f.buffers[part_] + o * part, part);
    });
  }
  std::string describe() const override {
    return str_cat({"assign_slice ", size_, " of ", whole_.extent, " along axis ", axis_});
  }

 private:
  std::uint32_t variable_, part_, begin_;
  bool wide_;
  std::size_t begins_, axis_;
  axis_rows whole_;
  std::int64_t size_;
  std::size_t row_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
