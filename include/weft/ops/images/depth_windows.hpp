// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/arrays/merge_axes.hpp>
#include <weft/ops/cpu/depth_windows.hpp>
#include <weft/ops/images/window.hpp>

/// The slices of windows along the depth of volumes, as channels; see ops/images/conv3d.hpp.
WEFT_COLD_BEGIN
namespace weft {

namespace detail {

/// The windows along the depth are those of window_height.
struct depth_window_attributes {
  window_attributes windows;
  attribute<std::int64_t> window;
};

/// Returns the windows of volumes `[batch, depth, pixels, channels]`. Throws invalid_argument if run-time extents do
/// not fit.
inline convolution_shape depth_windows_of(const depth_window_attributes& a, const shape& volumes,
                                          const shape& windows) {
  const convolution_shape s = convolution_of(a.windows, volumes, a.window, 1, windows);
  if (windows[3] != volumes[3] * a.window || windows[0] != volumes[0] || !windows_fit(s))
    throw error(error_code::invalid_argument, "conv3d",
                {"windows of ", std::int64_t{a.window}, " do not fit a depth of ", volumes[1], " and a result of ",
                 windows[1]});
  return s;
}

}  // namespace detail

/// Makes the slices of each window its channels: `[batch, depth, pixels, channels]` becomes `[batch, windows, pixels,
/// window * channels]`. Padding is zeros.
template <class T>
struct depth_windows_op {
  static constexpr const char* name = "depth_windows";
  using attributes = detail::depth_window_attributes;

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const shape &from = p.inputs[0].extents, &to = p.outputs[0].extents;
    const convolution_shape s = detail::depth_windows_of(a, from, to);
    box_copies all(p);
    all.fill_rest(0);
    for (std::int64_t k = 0; k < s.window_height; ++k) {
      const detail::depth_slices slices(s, k);
      box_walk source(1, slices.slice, s.stride_height), target(1, slices.first);
      target.begin[3] = k * from[3];
      if (slices.count > 0) all.copy(shape(from[0], slices.count, from[2], from[3]), 0, source, 0, target);
    }
    return all;
  }
  static void gradient(gradient_context& g, const attributes& a);
};

/// The transpose of depth_windows: adds the slices that are the same element of the volume.
template <class T>
struct add_depth_windows_op {
  static constexpr const char* name = "add_depth_windows";
  using attributes = detail::depth_window_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::add_depth_windows_kernel<T>(
        p, detail::depth_windows_of(a, p.outputs[0].extents, p.inputs[0].extents));
  }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, record<depth_windows_op<T>>({g.upstream()}, g.input(0).info(), a));
  }
};

template <class T>
void depth_windows_op<T>::gradient(gradient_context& g, const attributes& a) {
  g.set_gradient(0, record<add_depth_windows_op<T>>({g.upstream()}, g.input(0).info(), a));
}

namespace detail {

/// Returns `[batch, windows, height, width, window * channels]` of volumes; `Depth` is dims<windows>.
template <class Depth, int Window, window_options Along, class X>
auto windows_of_depth(const X& x) {
  using T = value_t<X>;
  using D = dims_t<X>;
  if constexpr (X::symbolic) {
    gpu::compile_kernels<gpu::moves, T>();
    gpu::compile_kernels<depth_windows_op, T>();
  }
  const auto planes = merge_axes<2>(x);
  using Planes = dims_t<decltype(planes)>;
  constexpr int channels = Window * static_cast<int>(D::spec[4]);
  using Windows = dims<extent_at<D, 0>::value, extent_at<Depth, 0>::value, extent_at<Planes, 2>::value, channels>;
  using To = dims<extent_at<D, 0>::value, extent_at<Depth, 0>::value, extent_at<D, 2>::value, extent_at<D, 3>::value,
                  channels>;
  const shape from = extents_of(x);
  const window_call call = call_windows(extents_of(planes), Window, 1, channels, Along);
  const auto windows = call_operation<depth_windows_op<T>, T, Windows>(call.result, {call.attributes, Window}, planes);
  return under_extents<To>(windows, shape(from[0], call.result[1], from[2], from[3], channels));
}

}  // namespace detail
}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/depth_windows.hpp>
#endif
