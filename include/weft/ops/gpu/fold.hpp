// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/install.hpp>
#include <weft/ops/images/unfold.hpp>

/// GPU kernel that adds windows at their places in images.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

/// A thread computes one element of the images.
template <class T>
struct fold_work {
  convolution_shape s;
  bool by_channel;
  const T* x;
  T* y;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i), channel = at % s.channels, column = at / s.channels % s.width;
    const std::int64_t row = at / s.channels / s.width % s.height, n = at / s.channels / s.width / s.height;
    const std::int64_t pixels = s.window_height * s.window_width;
    T sum = T();
    for (std::int64_t r = 0; r < s.window_height; ++r) {
      const std::int64_t from = row + s.pad_top - r * s.dilation_height, down = from / s.stride_height;
      if (from < 0 || from % s.stride_height != 0 || down >= s.out_height) continue;
      for (std::int64_t c = 0; c < s.window_width; ++c) {
        const std::int64_t left = column + s.pad_left - c * s.dilation_width, across = left / s.stride_width;
        if (left < 0 || left % s.stride_width != 0 || across >= s.out_width) continue;
        const std::int64_t window = (n * s.out_height + down) * s.out_width + across, pixel = r * s.window_width + c;
        sum = static_cast<T>(
            sum +
            x[window * pixels * s.channels + (by_channel ? channel * pixels + pixel : pixel * s.channels + channel)]);
      }
    }
    y[i] = sum;
  }
};

template <class T>
kernel* prepare_fold(const prepare_context& p, device&) {
  using w = fold_work<T>;
  const auto a = attributes_of<fold_op<T>>(p.node);
  const shape& images = p.outputs[0].extents;
  return make_each(p, "fold to " + to_string(images),
                   w{weft::detail::windows_of_call(p, a, images, p.inputs[0].extents), a.by_channel, nullptr, nullptr},
                   images.elements(), &w::x, &w::y);
}

}  // namespace WEFT_GPU_FILE

template <class T>
struct kernels<fold_op<T>> : installed<fold_op<T>, prepare_fold<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
