// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/images/pooling.hpp>

/// Pools of sequences, and pools of powers. Not part of <weft/weft.hpp>.
namespace weft {

/// Returns the largest element of each window of sequences `[batch, length, channels]` (tf.nn.max_pool1d):
/// `max_pool1d<2>(x)`, `max_pool1d<3, 1, padding::same>(x)`. Equals max_pool2d of images with one row;
/// `padding::of(0, 0, 2, 0)` pads two steps in front.
template <int Window, int Stride = Window, padding Padding = padding::valid, Expression Expr>
[[nodiscard]] auto max_pool1d(const Expr& sequences);

/// Returns the mean of each window of sequences `[batch, length, channels]` (tf.nn.avg_pool1d); for the options, see
/// max_pool1d and avg_pool2d.
template <int Window, int Stride = Window, padding Padding = padding::valid, bool CountPadding = false, Expression Expr>
[[nodiscard]] auto avg_pool1d(const Expr& sequences);

/// Returns the `norm`-th root of the sum of the `norm`-th powers of each window of images, float or double
/// (torch.nn.functional.lp_pool2d): `lp_pool2d<2>(x, 3)`. A sum that is not positive yields 0, with gradient 0.
template <size2d Window, size2d Stride = Window, Expression Expr>
[[nodiscard]] auto lp_pool2d(const Expr& images, double norm);

/// Returns the same for sequences `[batch, length, channels]` (torch.nn.functional.lp_pool1d).
template <int Window, int Stride = Window, Expression Expr>
[[nodiscard]] auto lp_pool1d(const Expr& sequences, double norm);

namespace detail {

/// The padding of an image with one row.
constexpr padding along_row(const padding& p) { return {p.by_result, 0, 0, p.left, p.right}; }

}  // namespace detail

template <int Window, int Stride, padding Padding, Expression Expr>
auto max_pool1d(const Expr& sequences) {
  using mistaken = sequences_are_not_of_rank_3<dims_t<Expr>>;
  static_assert(correct<mistaken>, "max_pool1d<window, stride, padding>: needs sequences [batch, length, channels]");
  constexpr padding pad = detail::along_row(Padding);
  if constexpr (correct<mistaken>)
    return squeeze<1>(max_pool2d<size2d(1, Window), size2d(1, Stride), pad>(expand_dims<1>(sequences)));
  else
    return detail::same_after_mistake(sequences);
}

template <int Window, int Stride, padding Padding, bool CountPadding, Expression Expr>
auto avg_pool1d(const Expr& sequences) {
  using mistaken = sequences_are_not_of_rank_3<dims_t<Expr>>;
  static_assert(correct<mistaken>, "avg_pool1d<window, stride, padding>: needs sequences [batch, length, channels]");
  constexpr padding pad = detail::along_row(Padding);
  if constexpr (correct<mistaken>)
    return squeeze<1>(avg_pool2d<size2d(1, Window), size2d(1, Stride), pad, CountPadding>(expand_dims<1>(sequences)));
  else
    return detail::same_after_mistake(sequences);
}

template <size2d Window, size2d Stride, Expression Expr>
auto lp_pool2d(const Expr& images, double norm) {
  using T = value_t<Expr>;
  using mistaken = first_mistake<not_floating<T>, pool_mistake<Expr, Window, Stride, padding::valid>>;
  static_assert(correct<mistaken>,
                "lp_pool2d<window, stride>(x, norm): needs float or double images that are not "
                "smaller than the window: cast<float>(x)");
  if constexpr (correct<mistaken>) {
    const auto powers = materialize(pow(images, static_cast<T>(norm)));
    const auto sums = materialize(avg_pool2d<Window, Stride>(powers) * static_cast<T>(Window.height * Window.width));
    return materialize(select(sums > 0, pow(select(sums > 0, sums, 1), static_cast<T>(1 / norm)), 0));
  } else {
    return detail::same_after_mistake(images);
  }
}

template <int Window, int Stride, Expression Expr>
auto lp_pool1d(const Expr& sequences, double norm) {
  using mistaken = sequences_are_not_of_rank_3<dims_t<Expr>>;
  static_assert(correct<mistaken>, "lp_pool1d<window, stride>(x, norm): needs sequences [batch, length, channels]");
  if constexpr (correct<mistaken>)
    return squeeze<1>(lp_pool2d<size2d(1, Window), size2d(1, Stride)>(expand_dims<1>(sequences), norm));
  else
    return detail::same_after_mistake(sequences);
}

template <auto...>
auto max_pool1d(...) WEFT_DELETED;  // window, stride and padding are in brackets: max_pool1d<3, 2>(x)
template <auto...>
auto avg_pool1d(...) WEFT_DELETED;  // window, stride and padding are in brackets: avg_pool1d<3, 2>(x)
template <auto...>
auto lp_pool2d(...) WEFT_DELETED;  // the norm is an argument: lp_pool2d<2>(x, 3)

}  // namespace weft
