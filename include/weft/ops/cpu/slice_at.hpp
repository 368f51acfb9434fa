// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel of slices that start at a computed index.
WEFT_COLD_BEGIN
namespace weft::detail {

/// `Back`: the transpose, which places a part among zeros. Copies elements of any type by their size.
class slice_at_kernel final : public kernel {
 public:
  slice_at_kernel(const prepare_context& p, std::size_t axis, bool back)
      : in_(p.input_slots[0]),
        begin_(p.input_slots[1]),
        out_(p.output_slots[0]),
        wide_(p.inputs[1].type == dtype::int64),
        back_(back),
        axis_(axis),
        whole_((back ? p.outputs : p.inputs)[0].extents, axis),
        size_((back ? p.inputs : p.outputs)[0].extents[axis]),
        row_(whole_.inner * size_of(p.inputs[0].type)),
        chunks_(whole_.outer, p.outputs[0].bytes(), std::size_t{256} << 10) {}

  void run(const kernel_context& f) override {
    const std::int64_t begin = device::index_at(f.buffers[begin_], wide_, 0),
                       extent = static_cast<std::int64_t>(whole_.extent);
    if (begin < 0 || begin > extent - size_)
      throw error(error_code::out_of_range, "slice",
                  {"begin must be in [0, ", extent - size_, "] for ", size_, " of the ", extent, " elements of axis ",
                   axis_, "; it is ", begin, ": clamp it, or take fewer elements"});
    const std::size_t before = static_cast<std::size_t>(begin) * row_, part = static_cast<std::size_t>(size_) * row_,
                      whole = whole_.extent * row_;
    chunks_.run(f, [&](std::size_t, std::size_t first, std::size_t end) {
      for (std::size_t o = first; o < end; ++o) {
        if (back_) {
          std::byte* const to = f.buffers[out_] + o * whole;
          __builtin_memset(to, 0, before);
          __builtin_memcpy(to + before, f.buffers[in_] + o * part, part);
          __builtin_memset(to + before + part, 0, whole - before - part);
        } else {
          __builtin_memcpy(f.buffers[out_] + o * part, f.buffers[in_] + o * whole + before, part);
        }
      }
    });
  }
  std::string describe() const override {
    return str_cat({back_ ? "pad_at" : "slice_at", " ", size_, " of ", whole_.extent, " along axis ", axis_});
  }

 private:
  std::uint32_t in_, begin_, out_;
  bool wide_, back_;
  std::size_t axis_;
  axis_rows whole_;
  std::int64_t size_;
  std::size_t row_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
