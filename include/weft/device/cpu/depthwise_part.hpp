// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/device/convolution.hpp>
#include <weft/device/cpu/dispatch.hpp>

WEFT_COLD_BEGIN
namespace weft::device::detail {

/// A part of a depthwise convolution with filters [window_height, window_width, channels, multiplier]: a row of the
/// result or of the images' gradient, or one element of the window in the filters' gradient. The innermost loops run
/// over channels, which are adjacent.
template <class T, convolution_kind Kind>
struct depthwise_part {
  const convolution_shape& s;
  const T* a;  // images, or filters for the images' gradient
  const T* b;  // filters, or the result's gradient
  T* out;
  std::int64_t part;

  WEFT_INLINE void operator()() const {
    if constexpr (Kind == convolution_kind::forward)
      row_of_result(part / s.out_height, part % s.out_height);
    else if constexpr (Kind == convolution_kind::input_gradient)
      row_of_images(part / s.height, part % s.height);
    else
      element_of_window(part / s.window_width, part % s.window_width);
  }

 private:
  std::int64_t image_row(std::int64_t y, std::int64_t r) const {
    return y * s.stride_height - s.pad_top + r * s.dilation_height;
  }
  std::int64_t image_column(std::int64_t x, std::int64_t q) const {
    return x * s.stride_width - s.pad_left + q * s.dilation_width;
  }
  /// Returns the offset of the filters for one element of the window.
  std::int64_t tap(std::int64_t r, std::int64_t q) const { return (r * s.window_width + q) * s.filters; }

  static WEFT_INLINE void clear(T* to, std::int64_t n) {
    for (std::int64_t k = 0; k < n; ++k) to[k] = 0;
  }

  /// to[c, k] += images[c] * with[c, k]
  WEFT_INLINE void add_products(const T* images, const T* with, T* to) const {
    const std::int64_t channels = s.channels, multiplier = s.filters / s.channels;
    if (multiplier == 1) {
      WEFT_VECTORIZE
      for (std::int64_t c = 0; c < channels; ++c) to[c] += images[c] * with[c];
      return;
    }
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t k = 0; k < multiplier; ++k) to[c * multiplier + k] += images[c] * with[c * multiplier + k];
  }
  /// to[c] += the sum over k of filters[c, k] * with[c, k]
  WEFT_INLINE void add_sums(const T* filters, const T* with, T* to) const {
    const std::int64_t channels = s.channels, multiplier = s.filters / s.channels;
    if (multiplier == 1) return add_products(filters, with, to);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t k = 0; k < multiplier; ++k) to[c] += filters[c * multiplier + k] * with[c * multiplier + k];
  }

  WEFT_INLINE void row_of_result(std::int64_t n, std::int64_t y) const {
    T* to = out + (n * s.out_height + y) * s.out_width * s.filters;
    for (std::int64_t x = 0; x < s.out_width; ++x, to += s.filters) {
      clear(to, s.filters);
      for (std::int64_t r = 0; r < s.window_height; ++r) {
        const std::int64_t i = image_row(y, r);
        if (i < 0 || i >= s.height) continue;
        for (std::int64_t q = 0; q < s.window_width; ++q) {
          const std::int64_t j = image_column(x, q);
          if (j < 0 || j >= s.width) continue;
          add_products(a + ((n * s.height + i) * s.width + j) * s.channels, b + tap(r, q), to);
        }
      }
    }
  }

  WEFT_INLINE void row_of_images(std::int64_t n, std::int64_t i) const {
    T* const row = out + (n * s.height + i) * s.width * s.channels;
    clear(row, s.width * s.channels);
    for (std::int64_t r = 0; r < s.window_height; ++r) {
      const std::int64_t from = i + s.pad_top - r * s.dilation_height, y = from / s.stride_height;
      if (from < 0 || from % s.stride_height != 0 || y >= s.out_height) continue;
      for (std::int64_t x = 0; x < s.out_width; ++x)
        for (std::int64_t q = 0; q < s.window_width; ++q) {
          const std::int64_t j = image_column(x, q);
          if (j < 0 || j >= s.width) continue;
          add_sums(a + tap(r, q), b + ((n * s.out_height + y) * s.out_width + x) * s.filters, row + j * s.channels);
        }
    }
  }

  WEFT_INLINE void element_of_window(std::int64_t r, std::int64_t q) const {
    T* const to = out + tap(r, q);
    clear(to, s.filters);
    for (std::int64_t n = 0; n < s.batch; ++n)
      for (std::int64_t y = 0; y < s.out_height; ++y) {
        const std::int64_t i = image_row(y, r);
        if (i < 0 || i >= s.height) continue;
        for (std::int64_t x = 0; x < s.out_width; ++x) {
          const std::int64_t j = image_column(x, q);
          if (j < 0 || j >= s.width) continue;
          add_products(a + ((n * s.height + i) * s.width + j) * s.channels,
                       b + ((n * s.out_height + y) * s.out_width + x) * s.filters, to);
        }
      }
  }
};

}  // namespace weft::device::detail
WEFT_COLD_END
