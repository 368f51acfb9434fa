// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/arrays/reverse.hpp>
#include <weft/ops/images/grid_sample.hpp>
#include <weft/ops/images/pooling.hpp>

/// Parts of images. Not part of <weft/weft.hpp>.
namespace weft {

/// The options of roi_align.
struct roi_align_options {
  double spatial_scale = 1;  ///< from the coordinates of boxes to pixels of the features
  bool aligned = true;       ///< true if pixel i covers [i, i + 1); false as in Mask R-CNN's first version
};

/// Boxes must be `[n, 4]`, with one number of an image, std::int32_t, for each.
template <class Boxes, class Images, class Index>
struct boxes_of_images_do_not_fit
    : mistake<Boxes::rank != 2 || Images::rank != 1 || Boxes::spec[Boxes::rank > 1 ? 1 : 0] != 4 ||
              (Boxes::rank == 2 && Images::rank == 1 && Boxes::spec[0] != Images::spec[0]) ||
              !std::is_same_v<Index, std::int32_t>> {};

/// The first mistake in images and their boxes, if any.
template <class Expr, class Boxes, class Images>
using boxes_mistake = first_mistake<images_are_not_of_rank_4<dims_t<Expr>>,
                                    boxes_of_images_do_not_fit<dims_t<Boxes>, dims_t<Images>, value_t<Images>>,
                                    not_floating<value_t<Expr>>, element_types_differ<value_t<Expr>, value_t<Boxes>>>;

namespace detail {

/// Returns a constant tensor of f(0) ... f(Total - 1), along the axis `Axis` of three.
template <class T, int Total, std::size_t Axis, class F>
auto numbers_along(F f) {
  using line = std::conditional_t<Axis == 1, dims<1, Total, 1>, dims<1, 1, Total>>;
  tensor<T, line> all;
  for (int i = 0; i < Total; ++i) all.data()[i] = static_cast<T>(f(i));
  return all;
}
/// Returns column I of boxes `[n, 4]` as `[n, 1, 1]`.
template <int Here, class Boxes>
auto corner_of(const Boxes& boxes) {
  return expand_dims<-1>(slice<1, Here, 1>(boxes));
}

/// Returns `Size` elements in the middle of an axis.
template <int Axis, int Size, class X>
auto middle_of(const X& x) {
  constexpr std::int64_t extent = dims_t<X>::spec[Axis];
  if constexpr (extent >= 0)
    return slice<Axis, static_cast<int>((extent - Size) / 2), Size>(x);
  else
    return slice<Axis, Size>(x, (extent_as<std::int64_t, Axis>(x) - Size) / 2);
}

/// Samples images `[batch, height, width, channels]` at rows `[n, h, 1]` and columns `[n, 1, w]`, in pixels, of the
/// image of each box. Positions outside of [-beyond, extent - 1 + beyond] yield `outside`; the outermost pixels are
/// repeated within.
template <interpolation Mode, class X, class Rows, class Columns, class Images>
auto sample_boxes(const X& x, const Rows& rows, const Columns& columns, const Images& images_of, int beyond,
                  double outside) {
  using T = value_t<X>;
  const auto height = extent_as<T, 1>(x);
  const auto width = extent_as<T, 2>(x);
  const auto along = [&](const auto& p, const auto& extent) {
    return materialize(p >= static_cast<T>(-beyond) && p <= extent - static_cast<T>(1 - beyond));
  };
  const auto inside = materialize(along(rows, height) && along(columns, width));  // [n, h, w]
  const auto grid = concat<-1>(expand_dims<-1>(weft::select(inside, columns, T(0))),
                               expand_dims<-1>(weft::select(inside, rows, T(0))));
  const auto [weights, pixels] = find_taps<Mode>(x, grid, image_border::nearest, device::grid_units::pixels);
  const auto batch = extent_as<std::int32_t, 0>(x);
  const auto image = materialize(expand_dims<-1>(expand_dims<-1>(expand_dims<-1>(images_of))));
  const auto there = materialize(expand_dims<-1>(inside) && image >= 0 && image < batch);  // [n, h, w, 1]
  const auto numbers =
      materialize(weft::select(there && pixels >= 0, image * number_as<std::int32_t>(height * width) + pixels, -1));
  const auto flat = expand_dims<0>(merge_axes<0, 3>(x));
  const auto y = squeeze<0>(sum_taps(flat, expand_dims<0>(weights), expand_dims<0>(numbers)));
  return materialize(weft::select(there, y, static_cast<T>(outside)));
}

}  // namespace detail

/// Returns the part of images `[batch, height, width, channels]` whose upper left pixel is (Top, Left), `[batch,
/// Height, Width, channels]` (tf.image.crop_to_bounding_box). Throws out_of_range if a run-time image is smaller.
template <int Top, int Left, int Height, int Width, Expression Expr>
[[nodiscard]] auto crop_to(const Expr& images) {
  using mistaken = images_are_not_of_rank_4<dims_t<Expr>>;
  static_assert(correct<mistaken>, "crop_to<top, left, height, width>: needs images [batch, height, width, channels]");
  if constexpr (correct<mistaken>)
    return slice<2, Left, Width>(slice<1, Top, Height>(images));
  else
    return detail::same_after_mistake(images);
}

/// Returns the middle of images, `[batch, Height, Width, channels]` (torchvision's center_crop); an odd pixel more is
/// below and to the right. tf.image.central_crop with a fraction is the same with the extents that result. Throws
/// out_of_range if a run-time image is smaller.
template <int Height, int Width, Expression Expr>
[[nodiscard]] auto central_crop(const Expr& images) {
  using mistaken = images_are_not_of_rank_4<dims_t<Expr>>;
  static_assert(correct<mistaken>, "central_crop<height, width>: needs images [batch, height, width, channels]");
  if constexpr (correct<mistaken>) {
    return detail::middle_of<2, Width>(detail::middle_of<1, Height>(materialize(images)));
  } else {
    return detail::same_after_mistake(images);
  }
}

/// Rotates images by `Times` times 90 degrees counterclockwise (tf.image.rot90).
template <int Times = 1, Expression Expr>
[[nodiscard]] auto rot90(const Expr& images) {
  using mistaken = images_are_not_of_rank_4<dims_t<Expr>>;
  static_assert(correct<mistaken>, "rot90<times>: needs images [batch, height, width, channels]");
  constexpr int times = (Times % 4 + 4) % 4;
  if constexpr (!correct<mistaken>)
    return detail::same_after_mistake(images);
  else if constexpr (times == 0)
    return materialize(images);
  else if constexpr (times == 1)
    return reverse<1>(transpose<0, 2, 1, 3>(images));
  else if constexpr (times == 2)
    return reverse<1, 2>(images);
  else
    return reverse<2>(transpose<0, 2, 1, 3>(images));
}

/// Returns boxes of images, resized to `[boxes, Height, Width, channels]` (tf.image.crop_and_resize): box
/// `[boxes, 4]` is (y1, x1, y2, x2) in units of height - 1 and width - 1, and may be reversed to flip the image;
/// `images_of` `[boxes]`, std::int32_t, is the number of each box's image. Interpolates between pixels, or takes the
/// nearest in mode `interpolation::nearest`; positions outside of the image yield `outside`. With gradients for images
/// and boxes. An image that does not exist yields `outside`. float or double.
template <int Height, int Width, interpolation Mode = interpolation::bilinear, Expression Expr, Expression Boxes,
          Expression Images>
[[nodiscard]] auto crop_and_resize(const Expr& images, const Boxes& boxes, const Images& images_of,
                                   double outside = 0) {
  using T = value_t<Expr>;
  using mistaken = boxes_mistake<Expr, Boxes, Images>;
  static_assert(
      correct<mistaken>,
      "crop_and_resize<height, width>: needs images [batch, height, width, channels], boxes [n, 4] of the same "
      "type, float or double, and std::int32_t numbers of images [n]");
  return detail::unless<mistaken>(images, boxes, [&](const auto& x, const auto& b) {
    const auto positions = [](const auto& from, const auto& to, const auto& extent, const auto& part, bool one) {
      const auto last = extent - T(1);
      if (one) return materialize((from + to) * T(0.5) * last + T(0) * part);
      return materialize((from + (to - from) * part) * last);
    };
    const auto rows =
        positions(detail::corner_of<0>(b), detail::corner_of<2>(b), detail::extent_as<T, 1>(x),
                  detail::numbers_along<T, Height, 1>([](int i) { return Height > 1 ? double(i) / (Height - 1) : 0; }),
                  Height == 1);
    const auto columns = positions(
        detail::corner_of<1>(b), detail::corner_of<3>(b), detail::extent_as<T, 2>(x),
        detail::numbers_along<T, Width, 2>([](int i) { return Width > 1 ? double(i) / (Width - 1) : 0; }), Width == 1);
    return detail::sample_boxes<Mode>(x, rows, columns, images_of, 0, outside);
  });
}

/// Returns the means of `Height` x `Width` parts of boxes of features, `[boxes, Height, Width, channels]`
/// (torchvision.ops.roi_align; He et al., Mask R-CNN, 2017): box `[boxes, 4]` is (x1, y1, x2, y2), and `images_of`
/// `[boxes]`, std::int32_t, is the number of its image. Each part is sampled at `Samples` x `Samples` positions, as
/// with sampling_ratio = Samples; the adaptive number of samples, -1, is not available. float or double.
template <int Height, int Width, int Samples = 2, Expression Expr, Expression Boxes, Expression Images>
[[nodiscard]] auto roi_align(const Expr& features, const Boxes& boxes, const Images& images_of,
                             const roi_align_options& options = {}) {
  using T = value_t<Expr>;
  using mistaken = boxes_mistake<Expr, Boxes, Images>;
  static_assert(
      correct<mistaken>,
      "roi_align<height, width, samples>: needs features [batch, height, width, channels], boxes [n, 4] of the "
      "same type, float or double, and std::int32_t numbers of images [n]");
  if constexpr (correct<mistaken>) {
    const T scale = static_cast<T>(options.spatial_scale), shift = options.aligned ? T(0.5) : T(0);
    const T least = options.aligned ? -static_cast<T>(__builtin_huge_val()) : T(1);
    const auto b = materialize(boxes);
    const auto positions = [&](const auto& from, const auto& to, const auto& part) {
      const auto first = materialize(from * scale - shift);
      return materialize(first + maximum(to * scale - shift - first, least) * part);
    };
    const auto rows =
        positions(detail::corner_of<1>(b), detail::corner_of<3>(b),
                  detail::numbers_along<T, Height * Samples, 1>([](int i) { return (i + 0.5) / (Height * Samples); }));
    const auto columns =
        positions(detail::corner_of<0>(b), detail::corner_of<2>(b),
                  detail::numbers_along<T, Width * Samples, 2>([](int i) { return (i + 0.5) / (Width * Samples); }));
    return avg_pool2d<Samples>(
        detail::sample_boxes<interpolation::bilinear>(materialize(features), rows, columns, images_of, 1, 0));
  } else {
    return detail::after_mistake<T, dims_t<Expr>>(features, boxes);
  }
}

template <auto...>
auto crop_and_resize(...) WEFT_DELETED;  // the size is in brackets: crop_and_resize<14, 14>(images, boxes, images_of)
template <auto...>
auto roi_align(...) WEFT_DELETED;  // the size is in brackets: roi_align<7, 7>(features, boxes, images_of)

}  // namespace weft
