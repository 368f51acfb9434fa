// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>

#include <weft/ops/arrays/counted.hpp>
#include <weft/ops/arrays/reverse.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/random/distributions.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Random changes of the elements of a batch, anew in each step, with gradients: crops, flips, and variants of dropout.
/// Reproducible like random_uniform. Not part of <weft/weft.hpp>.
namespace weft {

/// A crop must fit into images [batch, height, width, ...] whose height and width are static.
template <class Dims, int Height, int Width>
struct crop_does_not_fit
    : mistake<(Dims::rank < 3 || Height < 0 || Width < 0 || Dims::spec[Dims::rank < 3 ? 0 : 1] < Height ||
               Dims::spec[Dims::rank < 3 ? 0 : 2] < Width)> {};

namespace detail {

/// Extent 1 along all axes but the first and, if `KeepsLast`, the last.
template <std::size_t Rank, bool KeepsLast>
struct pick_elements {
  static constexpr std::size_t axis(std::size_t i) { return i == 0 || (KeepsLast && i + 1 == Rank) ? i : Rank; }
};
template <class D, bool KeepsLast>
using one_for_each = select<D, D::rank, pick_elements<D::rank, KeepsLast>>;

/// For each element of a batch, `Size` adjacent indices of an axis with `extent` elements.
template <int Size, class X>
auto drawn_window(const X& x, std::int64_t extent, const random_options& options) {
  using batch = dims<extent_at<dims_t<X>, 0>::value>;
  op_builder& where = *x.erased().builder();
  gpu::compile_kernels<random_int_op, std::int32_t>();
  const node<std::int32_t, batch> first(record_random<random_int_op<std::int32_t>, std::int64_t>(
      where, {dtype::int32, batch::spec}, 0, extent - Size + 1, options));
  return let(expand_dims<-1>(first) + counted_from_0<std::int32_t, dims<Size>>(x, Size));
}

/// Options whose seed, if any, differs from the given one.
inline random_options other_seed(const random_options& options) {
  const std::uint64_t* seed = options.seed.get();
  return seed ? random_options{.seed = *seed + 0x9E3779B97F4A7C15u} : options;
}

}  // namespace detail

/// Cuts a window out of each image, at a random place of its own: `[batch, Height, Width, ...]` of `[batch, height,
/// width, ...]` (tf.image.random_crop of each image): `random_crop<24, 24>(images)`.
template <int Height, int Width, Expression Expr>
[[nodiscard]] auto random_crop(const Expr& images, random_options options = {}) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<value_not_in_a_graph<Expr>, crop_does_not_fit<D, Height, Width>>;
  static_assert(correct<mistake>,
                "random_crop: needs images [batch, height, width, ...] in a graph, with static extents of at least the "
                "crop: random_crop<24, 24>(images)");
  if constexpr (correct<mistake>) {
    const auto x = let(images);
    const auto rows = batch_gather<1>(x, detail::drawn_window<Height>(x, D::spec[1], options));
    return batch_gather<1, 2>(rows, detail::drawn_window<Width>(x, D::spec[2], detail::other_seed(options)));
  } else {
    return detail::same_after_mistake(images);
  }
}

/// Reverses an axis of each element of a batch with the given probability (tf.image.random_flip_left_right of each
/// image): `random_flip<2>(images)` for `[batch, height, width, channels]`.
template <int Axis, Expression Expr>
[[nodiscard]] auto random_flip(const Expr& e, double probability = 0.5, random_options options = {}) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<value_not_in_a_graph<Expr>, axis_out_of_range<D, 0, Axis>>;
  static_assert(correct<mistake>, "random_flip: needs a value in a graph and a valid axis behind the batch");
  if constexpr (correct<mistake>) {
    const auto x = let(e);
    const auto flips = detail::drawn_bool<detail::one_for_each<D, false>>(x, probability, options);
    return let(select(flips, reverse<Axis>(x), x));
  } else {
    return detail::same_after_mistake(e);
  }
}

/// Sets whole channels to zero with probability `rate` and divides the others by 1 - rate, for each element of a batch
/// `[batch, ..., channels]` (tf.keras.layers.SpatialDropout2D, torch.nn.functional.dropout2d).
template <Expression Expr>
[[nodiscard]] auto spatial_dropout(const Expr& e, double rate, random_options options = {}) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<parameter_mistake<Expr>, axis_out_of_range<D, 0, -1>>;
  static_assert(correct<mistake>, "spatial_dropout: needs [batch, ..., channels] of float or double in a graph");
  if constexpr (correct<mistake>) {
    detail::check_dropout_rate(rate);
    const auto x = let(e);
    const auto kept = detail::drawn_bool<detail::one_for_each<D, true>>(x, 1 - rate, options);
    return let(select(kept, x / (1 - rate), 0));
  } else {
    return detail::same_after_mistake(e);
  }
}

/// Sets elements to the least value of selu with probability `rate`, and scales all so that mean 0 and variance 1
/// persist (Klambauer et al., Self-Normalizing Neural Networks, 2017; torch.nn.functional.alpha_dropout).
template <Expression Expr>
[[nodiscard]] auto alpha_dropout(const Expr& e, double rate, random_options options = {}) {
  static_assert(correct<parameter_mistake<Expr>>, "alpha_dropout: needs a value of float or double in a graph");
  if constexpr (correct<parameter_mistake<Expr>>) {
    detail::check_dropout_rate(rate);
    constexpr double least = -1.7580993408473766;
    const double scale = 1 / std::sqrt((1 - rate) * (1 + rate * least * least));
    const auto x = let(e);
    const auto kept = detail::drawn_bool<dims_t<Expr>>(x, 1 - rate, options);
    return let(scale * select(kept, x, least) - scale * rate * least);
  } else {
    return detail::same_after_mistake(e);
  }
}

WEFT_OTHER_CALLS(random_crop);      // extents are template arguments: random_crop<24, 24>(images, {.seed = 7})
WEFT_OTHER_CALLS(random_flip);      // the axis is a template argument: random_flip<2>(images, 0.5)
WEFT_OTHER_CALLS(spatial_dropout);  // a value, a rate and options: spatial_dropout(x, 0.1, {.seed = 7})
WEFT_OTHER_CALLS(alpha_dropout);    // a value, a rate and options: alpha_dropout(x, 0.1, {.seed = 7})

}  // namespace weft
