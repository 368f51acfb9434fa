// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/tensor/shape.hpp>

namespace weft {

/// The computation of a convolution or a pool, for every kind of device: all extents known, all memory contiguous.
///
/// images [batch, height, width, channels], filters [window_height, window_width, channels / groups, filters], result
/// [batch, out_height, out_width, filters]. Each group of filters reads its own group of channels. A pool has no
/// filters: its result has the channels of its images.
///
/// The window of result row `y` covers the image rows `y * stride_height - pad_top + r * dilation_height` for each of
/// its rows r. Pixels outside of the image count as 0 in a convolution, and not at all in a pool.
///
/// A pool whose window_height is 0 is adaptive: its windows divide the image, and two windows share a row or a column
/// if the result's extent does not divide the image's. The window of row `y` covers the rows from floor(y * height /
/// out_height) up to ceil((y + 1) * height / out_height).
struct convolution_shape {
  std::int64_t batch, height, width, channels;
  std::int64_t window_height, window_width, filters;
  std::int64_t out_height, out_width;
  std::int64_t stride_height, stride_width, dilation_height, dilation_width;
  std::int64_t pad_top, pad_bottom, pad_left, pad_right;
  bool counts_padding = false;  ///< for average pools: divides by the whole window
  std::int64_t groups = 1;      ///< divides channels and filters

  bool is_adaptive() const { return window_height == 0; }
  std::size_t image_elements() const { return static_cast<std::size_t>(height * width * channels); }
  std::size_t out_elements() const { return static_cast<std::size_t>(out_height * out_width * filters); }
  std::size_t filter_elements() const {
    return static_cast<std::size_t>(window_height * window_width * (channels / groups) * filters);
  }
};

/// A convolution, or the gradient of one of its operands.
enum class convolution_kind : unsigned char { forward, input_gradient, filter_gradient };

/// The operation of a pool on its windows.
enum class pool_kind : unsigned char { max, max_gradient, max_choice, average, average_gradient };

namespace detail {

constexpr std::int64_t windows_along(std::int64_t extent, std::int64_t window, std::int64_t stride,
                                     std::int64_t dilation, std::int64_t pad) {
  const std::int64_t room = extent + pad - ((window - 1) * dilation + 1);
  return room < 0 ? 0 : room / stride + 1;
}

/// Returns true if the result's extents match the number of windows.
inline bool windows_fit(const convolution_shape& s) {
  return (s.out_height > 0 || s.height == 0) && (s.out_width > 0 || s.width == 0) &&
         s.out_height ==
             windows_along(s.height, s.window_height, s.stride_height, s.dilation_height, s.pad_top + s.pad_bottom) &&
         s.out_width ==
             windows_along(s.width, s.window_width, s.stride_width, s.dilation_width, s.pad_left + s.pad_right);
}

}  // namespace detail
}  // namespace weft
