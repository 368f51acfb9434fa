// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/merge_axes.hpp>
#include <weft/ops/images/window.hpp>

/// Windows of volumes, `[batch, depth, height, width, channels]`.
namespace weft {

/// A depth, a height and a width; one number stands for all three.
struct size3d {
  int depth = 1, height = 1, width = 1;
  constexpr size3d(int all) : depth(all), height(all), width(all) {}
  constexpr size3d(int d, int h, int w) : depth(d), height(h), width(w) {}
  constexpr size2d slice() const { return {height, width}; }
};

/// The margin around a volume over which windows may extend; see `padding`. `padding3d::of(n)` adds n elements on every
/// side, and `padding3d::of(depth, height, width)` the given numbers on both sides (as in PyTorch).
struct padding3d {
  bool by_result = false;
  int front = 0, back = 0, top = 0, bottom = 0, left = 0, right = 0;

  static const padding3d valid, same;
  static constexpr padding3d of(int all) { return {false, all, all, all, all, all, all}; }
  static constexpr padding3d of(int depth, int height, int width) {
    return {false, depth, depth, height, height, width, width};
  }
  constexpr padding slice() const { return {by_result, top, bottom, left, right}; }
  /// The padding of the rows of an image.
  constexpr padding along_depth() const { return {by_result, front, back, 0, 0}; }
};

inline constexpr padding3d padding3d::valid{};
inline constexpr padding3d padding3d::same{.by_result = true};

namespace detail {

constexpr window_options slice_of(size3d stride, const padding3d& pad, size3d dilation) {
  return {stride.slice(), pad.slice(), dilation.slice()};
}
/// The depth as rows of an image of one column.
constexpr window_options depth_of(size3d stride, const padding3d& pad, size3d dilation) {
  return {size2d(stride.depth, 1), pad.along_depth(), size2d(dilation.depth, 1)};
}
constexpr bool sensible_volume(size3d stride, const padding3d& pad, size3d dilation) {
  return sensible(slice_of(stride, pad, dilation)) && sensible(depth_of(stride, pad, dilation));
}
constexpr bool pool3d_is_sensible(size3d window, size3d stride, const padding3d& p) {
  return sensible_volume(stride, p, 1) && window.depth > 0 && window.height > 0 && window.width > 0 &&
         p.front < window.depth && p.back < window.depth && p.top < window.height && p.bottom < window.height &&
         p.left < window.width && p.right < window.width;
}
constexpr bool window_fits_volume(const shape& volumes, std::int64_t depth, std::int64_t height, std::int64_t width,
                                  size3d stride, const padding3d& pad, size3d dilation) {
  if (volumes.rank != 5 || !sensible_volume(stride, pad, dilation)) return true;
  return has_windows(shape(1, volumes[2], volumes[3], 1), height, width, slice_of(stride, pad, dilation)) &&
         has_windows(shape(1, volumes[1], 1, 1), depth, 1, depth_of(stride, pad, dilation));
}

}  // namespace detail

/// Volumes must be of rank 5: batch, depth, height, width, channels.
template <class Volumes>
struct volumes_are_not_of_rank_5 : mistake<Volumes::rank != 5> {};

/// Windows and strides must be at least 1; padding must be at least 0 and less than the window.
template <size3d Window, size3d Stride, padding3d Padding>
struct pool3d_options_out_of_range : mistake<!detail::pool3d_is_sensible(Window, Stride, Padding)> {};

/// The window of a pool is larger than the padded volume.
template <class Volumes, size3d Window, size3d Stride, padding3d Padding>
struct window_is_larger_than_volume : mistake<!detail::window_fits_volume(Volumes::spec, Window.depth, Window.height,
                                                                          Window.width, Stride, Padding, 1)> {};

namespace detail {

/// Returns a result of images `[batch * depth, height, width, channels]` as volumes.
template <class Depth, class First, class Images>
auto as_volumes(const Images& y, const shape& volumes) {
  using Y = dims_t<Images>;
  using To = dims<extent_at<First, 0>::value, extent_at<Depth, 0>::value, extent_at<Y, 1>::value,
                  extent_at<Y, 2>::value, extent_at<Y, 3>::value>;
  const shape flat = extents_of(y);
  return under_extents<To>(y, shape(volumes[0], volumes[1], flat[1], flat[2], flat[3]));
}
/// Returns planes `[batch, depth, pixels, channels]` as volumes, whose height and width are axes of `like`.
template <std::size_t Height, class Planes, class Like>
auto with_slices_of(const Planes& planes, const Like& like) {
  using D = dims_t<Planes>;
  using To = dims<extent_at<D, 0>::value, extent_at<D, 1>::value, extent_at<dims_t<Like>, Height>::value,
                  extent_at<dims_t<Like>, Height + 1>::value, extent_at<D, 3>::value>;
  const shape p = extents_of(planes), slices = extents_of(like);
  return under_extents<To>(planes, shape(p[0], p[1], slices[Height], slices[Height + 1], p[3]));
}

}  // namespace detail
}  // namespace weft
