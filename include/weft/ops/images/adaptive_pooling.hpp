// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/images/pooling.hpp>

/// Pools that divide an image into a given number of windows. Not part of <weft/weft.hpp>.
namespace weft {

/// Returns the means of windows that divide images `[batch, height, width, channels]`, `[batch, Result.height,
/// Result.width, channels]` (torch.nn.functional.adaptive_avg_pool2d): `adaptive_avg_pool2d<7>(x)`,
/// `adaptive_avg_pool2d<size2d(4, 1)>(x)`. Window y of n covers the rows from floor(y * height / n) up to
/// ceil((y + 1) * height / n), so neighbours share a row if n does not divide the height, and images may be smaller
/// than the result. Takes the element types of avg_pool2d. Throws invalid_argument if an image has no pixels.
template <size2d Result, Expression Expr>
[[nodiscard]] auto adaptive_avg_pool2d(const Expr& images);

/// Returns the largest elements of the windows of adaptive_avg_pool2d (torch.nn.functional.adaptive_max_pool2d). For
/// equal elements, NaN and the gradient, see max_pool2d.
template <size2d Result, Expression Expr>
[[nodiscard]] auto adaptive_max_pool2d(const Expr& images);

/// Return the means and the largest elements of `Result` windows of sequences `[batch, length, channels]`
/// (torch.nn.functional.adaptive_avg_pool1d, adaptive_max_pool1d).
template <int Result, Expression Expr>
[[nodiscard]] auto adaptive_avg_pool1d(const Expr& sequences);
template <int Result, Expression Expr>
[[nodiscard]] auto adaptive_max_pool1d(const Expr& sequences);

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

template <size2d Result, class Expr>
auto adaptive_pool(const operation& op, const Expr& images) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using To = with_extent<with_extent<D, 1, Result.height>, 2, Result.width>;
  if constexpr (Expr::symbolic) gpu::compile_kernels<max_pool_op, T>();
  const auto x = materialize(images);
  const shape from = extents_of(x);
  return record_or_run<T, To, device_t<Expr>>(op, shape(from[0], Result.height, Result.width, from[3]),
                                              attribute_words(pool_attributes{{1, 1, 1, 1, 0, 0, 0, 0}, 0, 0, false}),
                                              x);
}

}  // namespace detail

template <size2d Result, Expression Expr>
auto adaptive_avg_pool2d(const Expr& images) {
  using mistaken = adaptive_pool_mistake<Expr, Result>;
  static_assert(
      correct<mistaken>,
      "adaptive_avg_pool2d<size>: needs floating-point images [batch, height, width, channels], and a size of "
      "at least 1: cast<float>(x)");
  if constexpr (correct<mistaken>)
    return detail::adaptive_pool<Result>(operation_of<average_pool_op<value_t<Expr>>>, images);
  else
    return detail::same_after_mistake(images);
}

template <size2d Result, Expression Expr>
auto adaptive_max_pool2d(const Expr& images) {
  using mistaken = adaptive_pool_mistake<Expr, Result>;
  static_assert(
      correct<mistaken>,
      "adaptive_max_pool2d<size>: needs floating-point images [batch, height, width, channels], and a size of "
      "at least 1: cast<float>(x)");
  if constexpr (correct<mistaken>)
    return detail::adaptive_pool<Result>(operation_of<max_pool_op<value_t<Expr>>>, images);
  else
    return detail::same_after_mistake(images);
}

template <int Result, Expression Expr>
auto adaptive_avg_pool1d(const Expr& sequences) {
  using mistaken = sequences_are_not_of_rank_3<dims_t<Expr>>;
  static_assert(correct<mistaken>, "adaptive_avg_pool1d<size>: needs sequences [batch, length, channels]");
  if constexpr (correct<mistaken>)
    return squeeze<1>(adaptive_avg_pool2d<size2d(1, Result)>(expand_dims<1>(sequences)));
  else
    return detail::same_after_mistake(sequences);
}

template <int Result, Expression Expr>
auto adaptive_max_pool1d(const Expr& sequences) {
  using mistaken = sequences_are_not_of_rank_3<dims_t<Expr>>;
  static_assert(correct<mistaken>, "adaptive_max_pool1d<size>: needs sequences [batch, length, channels]");
  if constexpr (correct<mistaken>)
    return squeeze<1>(adaptive_max_pool2d<size2d(1, Result)>(expand_dims<1>(sequences)));
  else
    return detail::same_after_mistake(sequences);
}

template <auto...>
auto adaptive_avg_pool2d(...) WEFT_DELETED;  // the size is in brackets: adaptive_avg_pool2d<7>(images)
template <auto...>
auto adaptive_max_pool2d(...) WEFT_DELETED;  // the size is in brackets: adaptive_max_pool2d<7>(images)

}  // namespace weft
