// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/pooling1d.hpp>

/// Pools that divide an image into a given number of windows. Not part of <weft/weft.hpp>.
namespace weft {

/// The result must have at least one row and column, and images must have pixels.
template <class Images, size2d Result>
struct adaptive_result_out_of_range : mistake<(Result.height < 1 || Result.width < 1 ||
                                               (Images::rank == 4 && (Images::spec[1] == 0 || Images::spec[2] == 0)))> {
};

/// The first mistake in an adaptive pool, if any.
template <class Expr, size2d Result>
using adaptive_pool_mistake = first_mistake<pool_undefined_for<value_t<Expr>>, images_are_not_of_rank_4<dims_t<Expr>>,
                                            adaptive_result_out_of_range<dims_t<Expr>, Result>>;

namespace detail {

/// Pools to Height rows, and Width columns or, for 0, the columns of the images.
template <pool_kind Kind, int Height, int Width, class X>
auto adaptive_pool(const X& x) {
  using Rows = with_extent<dims_t<X>, 1, Height>;
  using To = std::conditional_t<Width == 0, Rows, with_extent<Rows, 2, Width>>;
  const shape from = extents_of(x);
  return call_pool<Kind, To>(x, shape(from[0], Height, Width == 0 ? from[2] : Width, from[3]),
                             {{1, 1, 1, 1, 0, 0, 0, 0}, 0, 0, false});
}

}  // namespace detail

/// Returns the means of windows that divide images `[batch, height, width, channels]`, `[batch, Result.height,
/// Result.width, channels]` (torch.nn.functional.adaptive_avg_pool2d): `adaptive_avg_pool2d<7>(x)`,
/// `adaptive_avg_pool2d<size2d(4, 1)>(x)`. Window y of n covers the rows from floor(y * height / n) up to
/// ceil((y + 1) * height / n), so neighbours share a row if n does not divide the height, and images may be smaller
/// than the result. Takes the element types of avg_pool2d. Throws invalid_argument if an image has no pixels.
template <size2d Result, Expression Expr>
[[nodiscard]] auto adaptive_avg_pool2d(const Expr& images) {
  using mistaken = adaptive_pool_mistake<Expr, Result>;
  static_assert(
      correct<mistaken>,
      "adaptive_avg_pool2d<size>: needs floating-point images [batch, height, width, channels], and a size of "
      "at least 1: cast<float>(x)");
  return detail::unless<mistaken>(
      images, [](const auto& x) { return detail::adaptive_pool<pool_kind::average, Result.height, Result.width>(x); });
}

/// Returns the largest elements of the windows of adaptive_avg_pool2d (torch.nn.functional.adaptive_max_pool2d). For
/// equal elements, NaN and the gradient, see max_pool2d.
template <size2d Result, Expression Expr>
[[nodiscard]] auto adaptive_max_pool2d(const Expr& images) {
  using mistaken = adaptive_pool_mistake<Expr, Result>;
  static_assert(
      correct<mistaken>,
      "adaptive_max_pool2d<size>: needs floating-point images [batch, height, width, channels], and a size of "
      "at least 1: cast<float>(x)");
  return detail::unless<mistaken>(
      images, [](const auto& x) { return detail::adaptive_pool<pool_kind::max, Result.height, Result.width>(x); });
}

/// Return the means and the largest elements of `Result` windows of sequences `[batch, length, channels]`
/// (torch.nn.functional.adaptive_avg_pool1d, adaptive_max_pool1d).
template <int Result, Expression Expr>
[[nodiscard]] auto adaptive_avg_pool1d(const Expr& sequences) {
  static_assert(correct<sequences_are_not_of_rank_3<dims_t<Expr>>>,
                "adaptive_avg_pool1d<size>: needs sequences [batch, length, channels]");
  return detail::pool_sequences(sequences, [](const auto& x) { return adaptive_avg_pool2d<size2d(1, Result)>(x); });
}
template <int Result, Expression Expr>
[[nodiscard]] auto adaptive_max_pool1d(const Expr& sequences) {
  static_assert(correct<sequences_are_not_of_rank_3<dims_t<Expr>>>,
                "adaptive_max_pool1d<size>: needs sequences [batch, length, channels]");
  return detail::pool_sequences(sequences, [](const auto& x) { return adaptive_max_pool2d<size2d(1, Result)>(x); });
}

template <auto...>
auto adaptive_avg_pool2d(...) WEFT_DELETED;  // the size is in brackets: adaptive_avg_pool2d<7>(images)
template <auto...>
auto adaptive_max_pool2d(...) WEFT_DELETED;  // the size is in brackets: adaptive_max_pool2d<7>(images)

}  // namespace weft
