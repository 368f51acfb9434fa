// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>
#include <utility>

#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/images/taps.hpp>
#include <weft/ops/images/window.hpp>
#include <weft/ops/products/matmul.hpp>

/// Images at the positions of a grid. Not part of <weft/weft.hpp>.
namespace weft {

/// How a value between pixels is computed.
enum class interpolation : unsigned char {
  nearest,   ///< of the nearest pixel, and of the one with the even number if two are nearest
  bilinear,  ///< between the two nearest pixels along each axis
  bicubic,   ///< between the four nearest pixels along each axis, by cubic convolution with a = -0.75
};

/// What is outside of an image.
enum class image_border : unsigned char {
  zeros,
  nearest,     ///< the outermost pixels ("border" in PyTorch)
  reflection,  ///< the image's mirror image
};

/// The options of grid_sample.
struct grid_sample_options {
  interpolation mode = interpolation::bilinear;
  image_border outside = image_border::zeros;
  bool align_corners = false;  ///< true if -1 and 1 are the centers of the outermost pixels, not their outer edges
};

/// Returns images `[batch, height, width, channels]` at the positions of a grid `[batch, h, w, 2]`: `[batch, h, w,
/// channels]` (torch.nn.functional.grid_sample). A position is (x, y), from (-1, -1) in the upper left corner to (1, 1)
/// in the lower right one. Volumes `[batch, depth, height, width, channels]` have grids `[batch, d, h, w, 3]` of (x, y,
/// z), and no bicubic mode. Options are a template argument:
///
///     grid_sample<grid_sample_options{.outside = image_border::reflection}>(images, affine_grid<32, 32>(theta))
///
/// For float and double, images of at most 2^31 pixels. The gradient of the grid has the kinks of the interpolation,
/// and is 0 in nearest mode. A position that is NaN is outside of the image, which is pixel 0 unless the border is
/// zeros. Images without pixels yield zeros. Throws invalid_argument if the batches differ.
template <grid_sample_options Options = grid_sample_options{}, Expression Expr, Expression Grid>
[[nodiscard]] auto grid_sample(const Expr& images, const Grid& grid);

/// Returns the grid of an affine map for each element of a batch, `[batch, Height, Width, 2]`
/// (torch.nn.functional.affine_grid): `theta` `[batch, 2, 3]` maps (x, y, 1) of the result to (x, y) of the image.
template <int Height, int Width, bool AlignCorners = false, Expression Expr>
[[nodiscard]] auto affine_grid(const Expr& theta);

/// A grid needs the axes of the images: `[batch, h, w, 2]` for images, `[batch, d, h, w, 3]` for volumes.
template <class Images, class Grid>
struct grid_does_not_fit
    : mistake<(Images::rank != 4 && Images::rank != 5) || Grid::rank != Images::rank ||
              Grid::spec[Grid::rank - (Grid::rank > 0)] != static_cast<std::int64_t>(Images::rank) - 2> {};

/// Volumes have no bicubic mode.
template <class Images, interpolation Mode>
struct volumes_have_no_bicubic_mode : mistake<(Mode == interpolation::bicubic && Images::rank == 5)> {};

/// theta must be `[batch, 2, 3]`, and the grid at least 1 x 1.
template <class Dims, int Height, int Width>
            struct affine_grid_does_not_fit : mistake < Dims::rank !=
        3 ||
    Dims::spec[Dims::rank > 1 ? 1 : 0] != 2 || Dims::spec[Dims::rank > 2 ? 2 : 0] != 3 || Height < 1 || Width<1> {};

namespace detail {

/// Returns an extent as a number of type T or, if only a step knows it, as a scalar node.
template <class T, int Axis, class X>
auto extent_as(const X& x) {
  if constexpr (X::symbolic && dims_t<X>::spec[Axis] < 0)
    return materialize(cast<T>(reshape<dims<>>(slice<0, Axis, 1>(shape_of(x)))));
  else
    return static_cast<T>(extents_of(x)[Axis]);
}

/// The taps along one axis: the numbers of pixels, which may be out of range, and their weights. Both have an axis of
/// all taps at the end.
template <class Pixels, class Weights>
struct axis_taps {
  Pixels pixels;
  Weights weights;
};
template <class Pixels, class Weights>
axis_taps(Pixels, Weights) -> axis_taps<Pixels, Weights>;

/// Converts a number or a scalar node.
template <class To, class X>
auto number_as(const X& x) {
  if constexpr (Expression<X>)
    return materialize(cast<To>(x));
  else
    return static_cast<To>(x);
}
template <class X>
auto at_least_one(const X& x) {
  if constexpr (Expression<X>)
    return materialize(maximum(x, 1));
  else
    return x > 1 ? x : X(1);
}

/// Clamps positions to [0, last]. The gradient is 0 at the ends, as in PyTorch, and NaN becomes 0.
template <class P, class Last>
auto within_image(const P& p, const Last& last) {
  const auto positive = materialize(weft::select(p > 0, p, 0));
  return materialize(weft::select(positive < last, positive, last));
}

/// Moves positions into the image. The middle of pixel i is i.
template <image_border Outside, bool AlignCorners, class P, class Extent>
auto into_image(const P& p, const Extent& extent) {
  using T = value_t<P>;
  const auto last = extent - T(1);
  if constexpr (Outside == image_border::zeros) {
    return p;
  } else if constexpr (Outside == image_border::nearest) {
    return within_image(p, last);
  } else {
    // Unfolds a path between two mirrors, at the middles or the outer edges of the outermost pixels.
    constexpr T mirror = AlignCorners ? T(0) : T(-0.5);
    const auto span = at_least_one(extent - T(AlignCorners ? 1 : 0));
    const auto way = materialize(abs(p - mirror));
    const auto turns = materialize(floor(way / span));
    const auto rest = materialize(way - turns * span);
    const auto folded = materialize(weft::select(turns - 2 * floor(turns / 2) == 0, rest, span - rest) + mirror);
    return within_image(folded, last);
  }
}

/// The coefficients of the taps of a cubic convolution: element [i][k] belongs to the i-th power of the fraction and to
/// pixel k - 1 from its floor (Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981).
constexpr double cubic_coefficient(int power, int tap, double a) {
  const double all[4][4] = {{0, 1, 0, 0}, {a, 0, -a, 0}, {-2 * a, -(a + 3), 2 * a + 3, a}, {a, a + 2, -(a + 2), -a}};
  return all[power][tap];
}

/// Returns a tensor of f(k) for each tap; `Each` adjacent taps have equal k, which then advances modulo `Along`.
template <class T, int Taps, int Each, int Along, class F>
auto of_taps(F f) {
  tensor<T, dims<Taps>> all;
  for (int i = 0; i < Taps; ++i) all.data()[i] = static_cast<T>(f(i / Each % Along));
  return all;
}

/// Returns the taps of positions `[..., 1]` along axis number `Number` of `Axes`, innermost first.
template <grid_sample_options O, int Number, int Axes, class P, class Extent>
auto taps_along(const P& p, const Extent& extent) {
  using T = value_t<P>;
  if constexpr (O.mode == interpolation::nearest) {
    const auto at = into_image<O.outside, O.align_corners>(p, extent);
    const auto up = materialize(floor(at + T(0.5)));
    const auto even = materialize(weft::select(up - at == T(0.5), 2 * floor(up / 2), up));
    return axis_taps{even, materialize(ones_like(at))};
  } else if constexpr (O.mode == interpolation::bilinear) {
    constexpr int taps = 1 << Axes, each = 1 << Number;
    const auto second = of_taps<T, taps, each, 2>([](int k) { return k; });
    const auto sign = of_taps<T, taps, each, 2>([](int k) { return 2 * k - 1; });
    const auto first = of_taps<T, taps, each, 2>([](int k) { return 1 - k; });
    const auto at = into_image<O.outside, O.align_corners>(p, extent);
    const auto below = materialize(floor(at));
    const auto part = materialize(at - below);
    return axis_taps{materialize(below + second), materialize(first + sign * part)};
  } else {
    constexpr int each = Number == 0 ? 1 : 4;
    const auto coefficients = [](int i) {
      return of_taps<T, 16, each, 4>([i](int k) { return cubic_coefficient(i, k, -0.75); });
    };
    const auto offset = of_taps<T, 16, each, 4>([](int k) { return k - 1; });
    const auto below = materialize(floor(p));
    const auto part = materialize(p - below);
    const auto c0 = coefficients(0), c1 = coefficients(1), c2 = coefficients(2), c3 = coefficients(3);
    return axis_taps{into_image<O.outside, O.align_corners>(materialize(below + offset), extent),
                     materialize(((c3 * part + c2) * part + c1) * part + c0)};
  }
}

/// Returns the number of each tap's pixel, outer * extent + inner, or -1 if one of the two is out of range.
template <class Outer, class OuterExtent, class Inner, class Extent>
auto pixel_numbers(const Outer& outer, const OuterExtent& rows, const Inner& inner, const Extent& columns) {
  return materialize(
      weft::select(outer >= 0 && outer < rows && inner >= 0 && inner < columns,
                   cast<std::int32_t>(outer) * number_as<std::int32_t>(columns) + cast<std::int32_t>(inner), -1));
}

/// Returns coordinate `Number` of the grid, in pixels.
template <grid_sample_options O, int Number, class Grid, class Extent>
auto positions_along(const Grid& grid, const Extent& extent) {
  using T = value_t<Grid>;
  const auto from_0 = slice<-1, Number, 1>(grid) + T(1);  // to 2
  if constexpr (O.align_corners)
    return materialize(from_0 * ((extent - T(1)) * T(0.5)));
  else
    return materialize(from_0 * (extent * T(0.5)) - T(0.5));
}

/// Samples rows `[batch, pixels, channels]`.
template <grid_sample_options O, class X, class Grid>
auto sample_grid(const X& x, const Grid& grid) {
  using T = value_t<X>;
  constexpr int axes = static_cast<int>(dims_t<X>::rank) - 2;
  const auto width = extent_as<T, axes>(x);
  const auto height = extent_as<T, axes - 1>(x);
  const auto across = taps_along<O, 0, axes>(positions_along<O, 0>(grid, width), width);
  const auto down = taps_along<O, 1, axes>(positions_along<O, 1>(grid, height), height);
  if constexpr (axes == 2) {
    return sum_taps(merge_axes<1>(x), materialize(down.weights * across.weights),
                    pixel_numbers(down.pixels, height, across.pixels, width));
  } else {
    const auto depth = extent_as<T, 1>(x);
    const auto back = taps_along<O, 2, axes>(positions_along<O, 2>(grid, depth), depth);
    const auto rows = pixel_numbers(back.pixels, depth, down.pixels, height);
    return sum_taps(merge_axes<1>(merge_axes<1>(x)), materialize(back.weights * down.weights * across.weights),
                    pixel_numbers(rows, number_as<std::int32_t>(depth * height), across.pixels, width));
  }
}

}  // namespace detail

template <grid_sample_options Options, Expression Expr, Expression Grid>
auto grid_sample(const Expr& images, const Grid& grid) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistaken = first_mistake<grid_does_not_fit<D, dims_t<Grid>>, element_types_differ<T, value_t<Grid>>,
                                 not_floating<T>, volumes_have_no_bicubic_mode<D, Options.mode>>;
  static_assert(
      correct<mistaken>,
      "grid_sample: needs images [batch, height, width, channels] and a grid [batch, h, w, 2], or volumes and "
      "a grid [batch, d, h, w, 3], all float or all double");
  if constexpr (correct<mistaken>)
    return detail::sample_grid<Options>(materialize(images), materialize(grid));
  else
    return detail::after_mistake<T, D>(images, grid);
}

template <int Height, int Width, bool AlignCorners, Expression Expr>
auto affine_grid(const Expr& theta) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistaken = first_mistake<affine_grid_does_not_fit<D, Height, Width>, not_floating<T>>;
  static_assert(correct<mistaken>, "affine_grid<height, width>: needs matrices [batch, 2, 3] of float or double");
  if constexpr (correct<mistaken>) {
    tensor<T, dims<Height * Width, 3>> base;
    const auto position = [](int i, int n) {
      return AlignCorners ? (n > 1 ? static_cast<T>(2 * i) / static_cast<T>(n - 1) - 1 : T(0))
                          : static_cast<T>(2 * i + 1) / static_cast<T>(n) - 1;
    };
    T* at = base.data();
    for (int y = 0; y < Height; ++y)
      for (int x = 0; x < Width; ++x) *at++ = position(x, Width), *at++ = position(y, Height), *at++ = 1;
    const auto grid = transpose<0, 2, 1>(matmul<transpose_of::b>(theta, base));
    return detail::viewed<dims<detail::extent_at<D, 0>::value, Height, Width, 2>>(
        grid, shape(extents_of(grid)[0], Height, Width, 2));
  } else {
    return detail::same_after_mistake(theta);
  }
}

template <auto...>
auto affine_grid(...) WEFT_DELETED;  // the size of the grid is in brackets: affine_grid<32, 32>(theta)

}  // namespace weft
