// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/convolution.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel that adds the slices of windows; see ops/images/depth_windows.hpp.
WEFT_COLD_BEGIN
namespace weft::detail {

/// The windows whose slice number `k` is in the volume, [first, first + count), and the slice of the first one.
struct depth_slices {
  std::int64_t first, count, slice;

  depth_slices(const convolution_shape& s, std::int64_t k) {
    const std::int64_t offset = k * s.dilation_height - s.pad_top, room = s.height - 1 - offset;
    first = offset < 0 ? (-offset + s.stride_height - 1) / s.stride_height : 0;
    const std::int64_t fits = room < 0 ? 0 : room / s.stride_height + 1,
                       end = fits < s.out_height ? fits : s.out_height;
    count = end > first ? end - first : 0;
    slice = first * s.stride_height + offset;
  }
};

template <class T>
class add_depth_windows_kernel final : public kernel {
 public:
  add_depth_windows_kernel(const prepare_context& p, const convolution_shape& s)
      : s_(s),
        from_(p.input_slots[0]),
        to_(p.output_slots[0]),
        chunks_(static_cast<std::size_t>(s.batch * s.height), p.inputs[0].extents.elements()) {}

  void run(const kernel_context& f) override {
    const T* const x = reinterpret_cast<const T*>(f.buffers[from_]);
    T* const y = reinterpret_cast<T*>(f.buffers[to_]);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      multiversioned_up_to_avx2([this, x, y, begin, end] {
        for (std::size_t i = begin; i < end; ++i) slice(x, y, static_cast<std::int64_t>(i));
      });
    });
  }
  std::string describe() const override { return "add_depth_windows"; }

 private:
  /// half and bfloat16 are rounded after each window.
  WEFT_INLINE void slice(const T* x, T* y, std::int64_t i) const {
    const std::int64_t n = i / s_.height, d = i % s_.height, channels = s_.channels, pixels = s_.width;
    T* const to = y + i * pixels * channels;
    for (std::int64_t c = 0; c < pixels * channels; ++c) to[c] = T();
    for (std::int64_t k = 0; k < s_.window_height; ++k) {
      const std::int64_t from = d + s_.pad_top - k * s_.dilation_height, window = from / s_.stride_height;
      if (from < 0 || from % s_.stride_height != 0 || window >= s_.out_height) continue;
      const T* source = x + ((n * s_.out_height + window) * pixels * s_.window_height + k) * channels;
      for (std::int64_t p = 0; p < pixels; ++p, source += s_.window_height * channels) {
        T* const sum = to + p * channels;
        WEFT_VECTORIZE
        for (std::int64_t c = 0; c < channels; ++c) sum[c] = static_cast<T>(sum[c] + source[c]);
      }
    }
  }

  convolution_shape s_;
  std::uint32_t from_, to_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
