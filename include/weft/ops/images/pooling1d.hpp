// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/images/pooling.hpp>

/// Pools of sequences, and pools of powers. Not part of <weft/weft.hpp>.
namespace weft {

namespace detail {

/// The padding of an image with one row.
constexpr padding along_row(const padding& p) { return {p.by_result, 0, 0, p.left, p.right}; }

/// Calls f with sequences as images of one row.
template <class Expr, class F>
auto pool_sequences(const Expr& sequences, const F& f) {
  if constexpr (correct<sequences_are_not_of_rank_3<dims_t<Expr>>>)
    return squeeze<1>(f(expand_dims<1>(sequences)));
  else
    return same_after_mistake(sequences);
}

}  // namespace detail

/// Returns the largest element of each window of sequences `[batch, length, channels]` (tf.nn.max_pool1d):
/// `max_pool1d<2>(x)`, `max_pool1d<3, 1, padding::same>(x)`. Equals max_pool2d of images with one row;
/// `padding::of(0, 0, 2, 0)` pads two steps in front.
template <int Window, int Stride = Window, padding Padding = padding::valid, Expression Expr>
[[nodiscard]] auto max_pool1d(const Expr& sequences) {
  static_assert(correct<sequences_are_not_of_rank_3<dims_t<Expr>>>,
                "max_pool1d<window, stride, padding>: needs sequences [batch, length, channels]");
  static constexpr padding pad = detail::along_row(Padding);
  return detail::pool_sequences(sequences,
                                [](const auto& x) { return max_pool2d<size2d(1, Window), size2d(1, Stride), pad>(x); });
}

/// Returns the mean of each window of sequences `[batch, length, channels]` (tf.nn.avg_pool1d); for the options, see
/// max_pool1d and avg_pool2d.
template <int Window, int Stride = Window, padding Padding = padding::valid, bool CountPadding = false, Expression Expr>
[[nodiscard]] auto avg_pool1d(const Expr& sequences) {
  static_assert(correct<sequences_are_not_of_rank_3<dims_t<Expr>>>,
                "avg_pool1d<window, stride, padding>: needs sequences [batch, length, channels]");
  static constexpr padding pad = detail::along_row(Padding);
  return detail::pool_sequences(
      sequences, [](const auto& x) { return avg_pool2d<size2d(1, Window), size2d(1, Stride), pad, CountPadding>(x); });
}

/// Returns the `norm`-th root of the sum of the `norm`-th powers of each window of images, float or double
/// (torch.nn.functional.lp_pool2d): `lp_pool2d<2>(x, 3)`. A sum that is not positive yields 0, with gradient 0.
template <size2d Window, size2d Stride = Window, Expression Expr>
[[nodiscard]] auto lp_pool2d(const Expr& images, double norm) {
  using T = value_t<Expr>;
  using mistaken = first_mistake<not_floating<T>, pool_mistake<Expr, Window, Stride, padding::valid>>;
  static_assert(correct<mistaken>,
                "lp_pool2d<window, stride>(x, norm): needs float or double images that are not "
                "smaller than the window: cast<float>(x)");
  return detail::unless<mistaken>(images, [&](const auto& x) {
    const auto powers = materialize(pow(x, static_cast<T>(norm)));
    const auto sums = materialize(avg_pool2d<Window, Stride>(powers) * static_cast<T>(Window.height * Window.width));
    return materialize(select(sums > 0, pow(select(sums > 0, sums, 1), static_cast<T>(1 / norm)), 0));
  });
}

/// Returns the same for sequences `[batch, length, channels]` (torch.nn.functional.lp_pool1d).
template <int Window, int Stride = Window, Expression Expr>
[[nodiscard]] auto lp_pool1d(const Expr& sequences, double norm) {
  static_assert(correct<sequences_are_not_of_rank_3<dims_t<Expr>>>,
                "lp_pool1d<window, stride>(x, norm): needs sequences [batch, length, channels]");
  return detail::pool_sequences(
      sequences, [&](const auto& x) { return lp_pool2d<size2d(1, Window), size2d(1, Stride)>(x, norm); });
}

template <auto...>
auto max_pool1d(...) WEFT_DELETED;  // window, stride and padding are in brackets: max_pool1d<3, 2>(x)
template <auto...>
auto avg_pool1d(...) WEFT_DELETED;  // window, stride and padding are in brackets: avg_pool1d<3, 2>(x)
template <auto...>
auto lp_pool2d(...) WEFT_DELETED;  // the norm is an argument: lp_pool2d<2>(x, 3)

}  // namespace weft
