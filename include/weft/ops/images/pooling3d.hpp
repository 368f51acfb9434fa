// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/adaptive_pooling.hpp>
#include <weft/ops/images/volume.hpp>

/// Pools of volumes. Not part of <weft/weft.hpp>.
namespace weft {

namespace detail {

/// Pools volumes in two passes: the slices as images, and then the depth of images `[batch, depth, height * width,
/// channels]`. A maximum of maxima is the first one of the window, and a mean of means over equal numbers of elements
/// is the mean.
template <class Expr, class F, class Given>
auto pool_volumes(const Expr& volumes, const F& of_slices, const Given& of_depth) {
  using D = dims_t<Expr>;
  const auto x = materialize(volumes);
  const auto slices = of_slices(merge_axes<0>(x));
  const auto y = of_depth(merge_axes<2>(as_volumes<dims<extent_at<D, 1>::value>, D>(slices, extents_of(x))));
  return with_slices_of<1>(y, slices);
}

template <pool_kind Kind, size3d Window, size3d Stride, padding3d Padding, bool CountPadding = false, class X>
auto pool3d(const X& x) {
  return pool_volumes(
      x, [](const auto& e) { return pool<Kind, Window.slice(), Stride.slice(), Padding.slice(), CountPadding>(e); },
      [](const auto& e) {
        return pool<Kind, size2d(Window.depth, 1), size2d(Stride.depth, 1), Padding.along_depth(), CountPadding>(e);
      });
}
template <pool_kind Kind, size3d Result, class X>
auto adaptive_pool3d(const X& x) {
  return pool_volumes(
      x, [](const auto& e) { return adaptive_pool<Kind, Result.height, Result.width>(e); },
      [](const auto& e) { return adaptive_pool<Kind, Result.depth, 0>(e); });
}

}  // namespace detail

/// The first mistake in a pool of volumes, if any.
template <class Expr, size3d Window, size3d Stride, padding3d Padding>
using pool3d_mistake = first_mistake<pool_undefined_for<value_t<Expr>>, volumes_are_not_of_rank_5<dims_t<Expr>>,
                                     pool3d_options_out_of_range<Window, Stride, Padding>,
                                     window_is_larger_than_volume<dims_t<Expr>, Window, Stride, Padding>>;

/// Returns the largest element of each window of volumes `[batch, depth, height, width, channels]`, for each channel
/// (tf.nn.max_pool3d, torch.nn.functional.max_pool3d): `max_pool3d<2>(x)`, `max_pool3d<3, 2, padding3d::same>(x)`,
/// `max_pool3d<size3d(1, 2, 2)>(x)`. For the options, element types, equal elements, NaN and gradients, see max_pool2d.
template <size3d Window, size3d Stride = Window, padding3d Padding = padding3d::valid, Expression Expr>
[[nodiscard]] auto max_pool3d(const Expr& volumes) {
  using mistaken = pool3d_mistake<Expr, Window, Stride, Padding>;
  static_assert(correct<mistaken>,
                "max_pool3d: needs floating-point volumes [batch, depth, height, width, channels] that are not smaller "
                "than the window: cast<float>(x)");
  return detail::unless<mistaken>(
      volumes, [](const auto& x) { return detail::pool3d<pool_kind::max, Window, Stride, Padding>(x); });
}

/// Returns the mean of each window of volumes (tf.nn.avg_pool3d, torch.nn.functional.avg_pool3d); see max_pool3d and
/// avg_pool2d. The means of the slices are rounded before the windows' means are computed.
template <size3d Window, size3d Stride = Window, padding3d Padding = padding3d::valid, bool CountPadding = false,
          Expression Expr>
[[nodiscard]] auto avg_pool3d(const Expr& volumes) {
  using mistaken = pool3d_mistake<Expr, Window, Stride, Padding>;
  static_assert(correct<mistaken>,
                "avg_pool3d: needs floating-point volumes [batch, depth, height, width, channels] that are not smaller "
                "than the window: cast<float>(x)");
  return detail::unless<mistaken>(volumes, [](const auto& x) {
    return detail::pool3d<pool_kind::average, Window, Stride, Padding, CountPadding>(x);
  });
}

/// The result must have at least one element along each axis, and volumes must have elements.
template <class Dims, size3d Result>
struct adaptive_result3d_out_of_range
    : mistake<(Result.depth < 1 || Result.height < 1 || Result.width < 1 ||
               (Dims::rank == 5 && (Dims::spec[1] == 0 || Dims::spec[2] == 0 || Dims::spec[3] == 0)))> {};
template <class Expr, size3d Result>
using adaptive_pool3d_mistake =
    first_mistake<pool_undefined_for<value_t<Expr>>, volumes_are_not_of_rank_5<dims_t<Expr>>,
                  adaptive_result3d_out_of_range<dims_t<Expr>, Result>>;

/// Returns the means of windows that divide volumes (torch.nn.functional.adaptive_avg_pool3d); see adaptive_avg_pool2d.
template <size3d Result, Expression Expr>
[[nodiscard]] auto adaptive_avg_pool3d(const Expr& volumes) {
  using mistaken = adaptive_pool3d_mistake<Expr, Result>;
  static_assert(
      correct<mistaken>,
      "adaptive_avg_pool3d<size>: needs floating-point volumes [batch, depth, height, width, channels], and a "
      "size of at least 1: cast<float>(x)");
  return detail::unless<mistaken>(volumes,
                                  [](const auto& x) { return detail::adaptive_pool3d<pool_kind::average, Result>(x); });
}
/// Returns the largest elements of windows that divide volumes (torch.nn.functional.adaptive_max_pool3d).
template <size3d Result, Expression Expr>
[[nodiscard]] auto adaptive_max_pool3d(const Expr& volumes) {
  using mistaken = adaptive_pool3d_mistake<Expr, Result>;
  static_assert(
      correct<mistaken>,
      "adaptive_max_pool3d<size>: needs floating-point volumes [batch, depth, height, width, channels], and a "
      "size of at least 1: cast<float>(x)");
  return detail::unless<mistaken>(volumes,
                                  [](const auto& x) { return detail::adaptive_pool3d<pool_kind::max, Result>(x); });
}

template <auto...>
auto max_pool3d(...) WEFT_DELETED;  // window, stride and padding are in brackets: max_pool3d<2>(x)
template <auto...>
auto avg_pool3d(...) WEFT_DELETED;  // window, stride and padding are in brackets: avg_pool3d<2>(x)

}  // namespace weft
