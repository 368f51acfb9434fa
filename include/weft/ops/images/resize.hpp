// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/images/window.hpp>
#include <weft/ops/index/gather.hpp>

/// Image resizing. Not part of <weft/weft.hpp>.
namespace weft {

/// How row or column i of a resized image maps to a position in the original; `out` and `in` are their extents. The
/// names are ONNX's.
enum class resize_coordinates : unsigned char {
  half_pixel,     ///< (i + 0.5) * in / out - 0.5 (tf.image.resize, torch's align_corners=False)
  align_corners,  ///< i * (in - 1) / (out - 1): corners stay corners (torch's align_corners=True)
  asymmetric,     ///< i * in / out (TensorFlow 1's default; mode "nearest" of torch)
};

/// Resizes images `[batch, height, width, channels]` to `[batch, Height, Width, channels]` by taking the nearest pixel
/// (tf.image.resize with method "nearest", mode "nearest-exact" of torch.nn.functional.interpolate). Positions are
/// computed in integers. All element types. Throws out_of_range if an image has no pixels.
template <int Height, int Width, resize_coordinates Coordinates = resize_coordinates::half_pixel, Expression Expr>
[[nodiscard]] auto resize_nearest(const Expr& images);

/// Resizes images `[batch, height, width, channels]` to `[batch, Height, Width, channels]` by interpolating between the
/// four nearest pixels, without a filter for downscaling (tf.image.resize, mode "bilinear" of
/// torch.nn.functional.interpolate): float or double. Positions beyond the outermost pixels take their values. Throws
/// out_of_range if an image has no pixels.
template <int Height, int Width, resize_coordinates Coordinates = resize_coordinates::half_pixel, Expression Expr>
[[nodiscard]] auto resize_bilinear(const Expr& images);

/// The new height and width must be at least 1, and images must have pixels.
template <class Images, int Height, int Width>
struct resize_extents_out_of_range
    : mistake<(Height < 1 || Width < 1 || (Images::rank == 4 && (Images::spec[1] == 0 || Images::spec[2] == 0)))> {};

namespace detail {

/// Returns an extent: a number or, if only a step knows it, a scalar node.
template <int Axis, class X>
auto extent_along(const X& x) {
  if constexpr (X::symbolic && dims_t<X>::spec[Axis] < 0)
    return reshape<dims<>>(slice<0, Axis, 1>(shape_of(x)));
  else
    return extents_of(x)[Axis];
}

template <int Out>
auto numbers_up_to() {
  tensor<std::int64_t, dims<Out>> numbers;
  for (int i = 0; i < Out; ++i) numbers.data()[i] = i;
  return numbers;
}

constexpr std::int64_t resize_denominator(resize_coordinates how, std::int64_t out) {
  return how == resize_coordinates::half_pixel   ? 2 * out
         : how == resize_coordinates::asymmetric ? out
         : out > 1                               ? out - 1
                                                 : 1;
}

/// Returns the numerators of the coordinates.
template <resize_coordinates How, int Out, class In>
auto resize_numerators(const In& in) {
  const auto i = numbers_up_to<Out>();
  if constexpr (How == resize_coordinates::half_pixel)
    return materialize((2 * i + 1) * in - Out);
  else if constexpr (How == resize_coordinates::align_corners)
    return materialize(i * (in - 1));
  else
    return materialize(i * in);
}

template <int Axis, int Out, resize_coordinates How, class X>
auto resize_nearest_along(const X& x) {
  if constexpr (dims_t<X>::spec[Axis] == Out) {
    return x;
  } else {
    constexpr std::int64_t den = resize_denominator(How, Out);
    const auto num = resize_numerators<How, Out>(extent_along<Axis>(x));
    if constexpr (How ==
                  resize_coordinates::half_pixel)  // nearest is floor(coordinate + 1/2), no coordinate is below it
      return gather<Axis>(x, (num + Out) / den);
    else if constexpr (How == resize_coordinates::align_corners)
      return gather<Axis>(x, (2 * num + den) / (2 * den));
    else
      return gather<Axis>(x, num / den);
  }
}

template <int Axis, int Out, resize_coordinates How, class X>
auto resize_bilinear_along(const X& x) {
  if constexpr (dims_t<X>::spec[Axis] == Out) {
    return x;
  } else {
    using T = value_t<X>;
    constexpr std::int64_t den = resize_denominator(How, Out);
    const auto in = extent_along<Axis>(x);
    const auto last = in - 1;
    const auto num = materialize(maximum(minimum(resize_numerators<How, Out>(in), last * den), std::int64_t{0}));
    const auto lower = materialize(num / den);
    const auto upper = materialize(minimum(lower + 1, last));
    const auto part = materialize(cast<T>(num - lower * den) / static_cast<T>(den));
    const auto weight = [&] {
      if constexpr (Axis == 1)
        return expand_dims<1>(expand_dims<1>(part));
      else
        return expand_dims<1>(part);
    }();
    return materialize(gather<Axis>(x, lower) * (1 - weight) + gather<Axis>(x, upper) * weight);
  }
}

}  // namespace detail

template <int Height, int Width, resize_coordinates Coordinates, Expression Expr>
auto resize_nearest(const Expr& images) {
  using D = dims_t<Expr>;
  using mistaken = first_mistake<images_are_not_of_rank_4<D>, resize_extents_out_of_range<D, Height, Width>>;
  static_assert(correct<mistaken>, "resize_nearest<height, width>: needs images [batch, height, width, channels]");
  if constexpr (correct<mistaken>)
    return detail::resize_nearest_along<2, Width, Coordinates>(
        detail::resize_nearest_along<1, Height, Coordinates>(materialize(images)));
  else
    return detail::same_after_mistake(images);
}

template <int Height, int Width, resize_coordinates Coordinates, Expression Expr>
auto resize_bilinear(const Expr& images) {
  using D = dims_t<Expr>;
  using mistaken = first_mistake<images_are_not_of_rank_4<D>, resize_extents_out_of_range<D, Height, Width>,
                                 not_floating<value_t<Expr>>>;
  static_assert(correct<mistaken>,
                "resize_bilinear<height, width>: needs float or double images [batch, height, width, channels]: "
                "cast<float>(images)");
  if constexpr (correct<mistaken>)
    return detail::resize_bilinear_along<2, Width, Coordinates>(
        detail::resize_bilinear_along<1, Height, Coordinates>(materialize(images)));
  else
    return detail::same_after_mistake(images);
}

template <auto...>
auto resize_nearest(...) WEFT_DELETED;  // the new size is in brackets: resize_nearest<64, 64>(images)
template <auto...>
auto resize_bilinear(...) WEFT_DELETED;  // the new size is in brackets: resize_bilinear<64, 64>(images)

}  // namespace weft
