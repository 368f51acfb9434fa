// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/convolution.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel that adds windows at their places in images; see ops/images/unfold.hpp.
WEFT_COLD_BEGIN
namespace weft::detail {

template <class T>
class fold_kernel final : public kernel {
 public:
  fold_kernel(const prepare_context& p, const convolution_shape& s, bool by_channel)
      : s_(s),
        by_channel_(by_channel),
        from_(p.input_slots[0]),
        to_(p.output_slots[0]),
        chunks_(static_cast<std::size_t>(s.batch * s.height * s.width), p.inputs[0].extents.elements()) {}

  void run(const kernel_context& f) override {
    const T* const x = reinterpret_cast<const T*>(f.buffers[from_]);
    T* const y = reinterpret_cast<T*>(f.buffers[to_]);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      multiversioned_up_to_avx2([this, x, y, begin, end] {
        const auto last = static_cast<std::int64_t>(end);
        for (std::int64_t at = static_cast<std::int64_t>(begin), next; at < last; at = next) {
          const std::int64_t i = at / s_.width, left = at % s_.width, rest = left + last - at;
          const std::int64_t right = rest < s_.width ? rest : s_.width;
          row(x, y, i, left, right);
          next = at + right - left;
        }
      });
    });
  }
  std::string describe() const override { return str_cat({"fold to ", s_.height, "x", s_.width}); }

 private:
  /// Computes the columns [left, right) of row i, counted over all images. half and bfloat16 are rounded after each
  /// window.
  WEFT_INLINE void row(const T* x, T* y, std::int64_t i, std::int64_t left, std::int64_t right) const {
    const std::int64_t n = i / s_.height, d = i % s_.height, channels = s_.channels,
                       pixels = s_.window_height * s_.window_width;
    T* const to = y + i * s_.width * channels;
    for (std::int64_t k = left * channels; k < right * channels; ++k) to[k] = T();
    // The windows that reach these columns.
    const std::int64_t before = left + s_.pad_left - (s_.window_width - 1) * s_.dilation_width;
    const std::int64_t first_window = before > 0 ? (before + s_.stride_width - 1) / s_.stride_width : 0,
                       behind = (right - 1 + s_.pad_left) / s_.stride_width + 1,
                       last_window = behind < s_.out_width ? behind : s_.out_width;
    for (std::int64_t r = 0; r < s_.window_height; ++r) {
      const std::int64_t from = d + s_.pad_top - r * s_.dilation_height, down = from / s_.stride_height;
      if (from < 0 || from % s_.stride_height != 0 || down >= s_.out_height) continue;
      const T* window = x + ((n * s_.out_height + down) * s_.out_width + first_window) * pixels * channels;
      for (std::int64_t w = first_window; w < last_window; ++w, window += pixels * channels) {
        const std::int64_t first = w * s_.stride_width - s_.pad_left;
        if (s_.dilation_width == 1 && !by_channel_) {  // adjacent pixels are adjacent in the window
          const std::int64_t begin = first < left ? left - first : 0, room = right - first,
                             end = room < s_.window_width ? room : s_.window_width;
          add((end - begin) * channels, window + (r * s_.window_width + begin) * channels, 1,
              to + (first + begin) * channels);
          continue;
        }
        for (std::int64_t c = 0; c < s_.window_width; ++c) {
          const std::int64_t column = first + c * s_.dilation_width, pixel = r * s_.window_width + c;
          if (column >= left && column < right)
            add(channels, window + (by_channel_ ? pixel : pixel * channels), by_channel_ ? pixels : 1,
                to + column * channels);
        }
      }
    }
  }
  static WEFT_INLINE void add(std::int64_t n, const T* from, std::int64_t step, T* to) {
    WEFT_VECTORIZE
    for (std::int64_t k = 0; k < n; ++k) to[k] = static_cast<T>(to[k] + from[k * step]);
  }

  convolution_shape s_;
  bool by_channel_;
  std::uint32_t from_, to_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
