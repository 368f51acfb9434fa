// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/images/extent_as.hpp>
#include <weft/ops/images/grid_taps.hpp>
#include <weft/ops/images/window.hpp>
#include <weft/ops/products/matmul.hpp>

/// Images at the positions of a grid. Not part of <weft/weft.hpp>.
namespace weft {

/// The options of grid_sample.
struct grid_sample_options {
  interpolation mode = interpolation::bilinear;
  image_border outside = image_border::zeros;
  bool align_corners = false;  ///< true if -1 and 1 are the centers of the outermost pixels, not their outer edges
};

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
struct affine_grid_does_not_fit
    : mistake<(Dims::rank != 3 || Dims::spec[1] != 2 || Dims::spec[2] != 3 || Height < 1 || Width < 1)> {};

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
[[nodiscard]] auto grid_sample(const Expr& images, const Grid& grid) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistaken = first_mistake<grid_does_not_fit<D, dims_t<Grid>>, element_types_differ<T, value_t<Grid>>,
                                 not_floating<T>, volumes_have_no_bicubic_mode<D, Options.mode>>;
  static_assert(
      correct<mistaken>,
      "grid_sample: needs images [batch, height, width, channels] and a grid [batch, h, w, 2], or volumes and "
      "a grid [batch, d, h, w, 3], all float or all double");
  return detail::unless<mistaken>(images, grid, []<class X>(const X& x, const auto& positions) {
    const auto [weights, pixels] = detail::find_taps<Options.mode>(
        x, positions, Options.outside, Options.align_corners ? device::grid_units::corners : device::grid_units::edges);
    return detail::sum_taps(detail::merge_axes<1, dims_t<X>::rank - 2>(x), weights, pixels);
  });
}

/// Returns the grid of an affine map for each element of a batch, `[batch, Height, Width, 2]`
/// (torch.nn.functional.affine_grid): `theta` `[batch, 2, 3]` maps (x, y, 1) of the result to (x, y) of the image.
template <int Height, int Width, bool AlignCorners = false, Expression Expr>
[[nodiscard]] auto affine_grid(const Expr& theta) {
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
    return detail::under_extents<dims<detail::extent_at<D, 0>::value, Height, Width, 2>>(
        grid, shape(extents_of(grid)[0], Height, Width, 2));
  } else {
    return detail::same_after_mistake(theta);
  }
}

template <auto...>
auto affine_grid(...) WEFT_DELETED;  // the size of the grid is in brackets: affine_grid<32, 32>(theta)

}  // namespace weft
