#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/tensor/dims.hpp>

namespace weft {

/// What a convolution or a pool computes, for every kind of device: all extents known, all memory contiguous.
///
/// images [batch, height, width, channels], filters [window_height, window_width, channels, filters], result
/// [batch, out_height, out_width, filters]. A pool has no filters: its result has the channels of its images.
///
/// The window of result row `y` covers the image rows `y * stride_height - pad_top + r * dilation_height` for each of
/// its rows r. What lies outside of the image counts as 0 in a convolution, and not at all in a pool.
struct convolution_shape {
  std::int64_t batch, height, width, channels;
  std::int64_t window_height, window_width, filters;
  std::int64_t out_height, out_width;
  std::int64_t stride_height, stride_width, dilation_height, dilation_width;
  std::int64_t pad_top, pad_bottom, pad_left, pad_right;

  std::size_t image_elements() const { return static_cast<std::size_t>(height * width * channels); }
  std::size_t out_elements() const { return static_cast<std::size_t>(out_height * out_width * filters); }
  std::size_t filter_elements() const {
    return static_cast<std::size_t>(window_height * window_width * channels * filters);
  }
};

/// A convolution, or the gradient of one of its operands.
enum class convolution_kind : unsigned char { forward, input_gradient, filter_gradient };

/// What a pool does with its windows.
enum class pool_kind : unsigned char { max, max_gradient, max_choice, average, average_gradient };

/// The attributes of `conv2d`, its gradients and the pools, in this order. Those of pools end with the window's
/// extents.
enum class convolution_attribute : unsigned char {
  stride_height,
  stride_width,
  dilation_height,
  dilation_width,
  pad_top,
  pad_bottom,
  pad_left,
  pad_right,
  window_height,
  window_width,
};

namespace detail {

constexpr std::int64_t windows_along(std::int64_t extent, std::int64_t window, std::int64_t stride,
                                     std::int64_t dilation, std::int64_t pad) {
  const std::int64_t room = extent + pad - ((window - 1) * dilation + 1);
  return room < 0 ? 0 : room / stride + 1;
}

/// The call that the attributes and the extents of images and result describe; `channels` and `filters` are theirs.
inline convolution_shape convolution_of(const std::int64_t* attributes, const shape& images, std::int64_t window_height,
                                        std::int64_t window_width, const shape& result) {
  return {images[0],     images[1],     images[2],     images[3],     window_height, window_width,
          result[3],     result[1],     result[2],     attributes[0], attributes[1], attributes[2],
          attributes[3], attributes[4], attributes[5], attributes[6], attributes[7]};
}

/// Whether the result's extents are those of the windows.
inline bool windows_fit(const convolution_shape& s) {
  return s.out_height ==
             windows_along(s.height, s.window_height, s.stride_height, s.dilation_height, s.pad_top + s.pad_bottom) &&
         s.out_width ==
             windows_along(s.width, s.window_width, s.stride_width, s.dilation_width, s.pad_left + s.pad_right);
}

}  // namespace detail
}  // namespace weft
