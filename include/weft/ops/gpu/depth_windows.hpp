// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/install.hpp>
#include <weft/ops/images/depth_windows.hpp>

/// GPU kernel that adds the slices of windows.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

/// A thread computes one element of the volume.
template <class T>
struct add_depth_windows_work {
  convolution_shape s;
  const T* x;
  T* y;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i), c = at % s.channels, pixel = at / s.channels % s.width;
    const std::int64_t d = at / s.channels / s.width % s.height, n = at / s.channels / s.width / s.height;
    T sum = T();
    for (std::int64_t k = 0; k < s.window_height; ++k) {
      const std::int64_t from = d + s.pad_top - k * s.dilation_height, window = from / s.stride_height;
      if (from < 0 || from % s.stride_height != 0 || window >= s.out_height) continue;
      sum = static_cast<T>(sum +
                           x[(((n * s.out_height + window) * s.width + pixel) * s.window_height + k) * s.channels + c]);
    }
    y[i] = sum;
  }
};

template <class T>
kernel* prepare_add_depth_windows(const prepare_context& p, device&) {
  using w = add_depth_windows_work<T>;
  const shape& to = p.outputs[0].extents;
  const auto a = attributes_of<add_depth_windows_op<T>>(p.node);
  return make_each(p, "add_depth_windows",
                   w{weft::detail::depth_windows_of(a, to, p.inputs[0].extents), nullptr, nullptr}, to.elements(),
                   &w::x, &w::y);
}

}  // namespace WEFT_GPU_FILE

template <class T>
struct kernels<depth_windows_op<T>> : installed<add_depth_windows_op<T>, prepare_add_depth_windows<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
