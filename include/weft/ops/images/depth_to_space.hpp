// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/images/window.hpp>

/// Blocks of pixels as channels, and as batches. Not part of <weft/weft.hpp>. For all element types; one copy each.
namespace weft {

/// The order of the channels in which a block of pixels is stored. Weights that were trained with one order do not fit
/// the other. The names are ONNX's.
enum class depth_order : unsigned char {
  dcr,  ///< by pixel, then by channel of the image (TensorFlow)
  crd,  ///< by channel of the image, then by pixel (PyTorch's pixel_shuffle and unfold)
};

namespace detail {

constexpr bool divides(std::int64_t by, std::int64_t extent) { return by > 0 && (extent < 0 || extent % by == 0); }

/// The extents of images and of a block, as operands of arithmetic.
template <class D, int Height, int Width>
struct image_blocks {
  static constexpr auto n = extent_of<D, 0>();
  static constexpr auto h = extent_of<D, 1>();
  static constexpr auto w = extent_of<D, 2>();
  static constexpr auto c = extent_of<D, 3>();
  static constexpr auto y = extent<Height>;
  static constexpr auto x = extent<Width>;
  static constexpr auto block = extent<Height * Width>;
};
template <class b>
using divided_images = dims<b::n, b::h / b::y, b::y, b::w / b::x, b::x, b::c>;

}  // namespace detail

/// The extents must be divisible by those of a block: batch, height, width or channels, whichever is divided.
template <class Images, int Batch, int Height, int Width, int Channels>
struct extents_not_divisible
    : mistake<!(detail::divides(Batch, Images::spec[0]) && detail::divides(Height, Images::spec[1]) &&
                detail::divides(Width, Images::spec[2]) && detail::divides(Channels, Images::spec[3]))> {};

namespace detail {

template <class Expr, int Block>
using depth_mistake =
    first_mistake<images_are_not_of_rank_4<dims_t<Expr>>, extents_not_divisible<dims_t<Expr>, 1, 1, 1, Block * Block>>;
template <class Expr, int Height, int Width = Height>
using blocks_mistake =
    first_mistake<images_are_not_of_rank_4<dims_t<Expr>>, extents_not_divisible<dims_t<Expr>, 1, Height, Width, 1>>;

template <int Block, depth_order Order, class X>
auto spread_channels(const X& x) {
  using b = image_blocks<dims_t<X>, Block, Block>;
  using To = dims<b::n, b::h * b::y, b::w * b::x, b::c / b::block>;
  if constexpr (Order == depth_order::dcr)
    return reshape<To>(transpose<0, 1, 3, 2, 4, 5>(reshape<dims<b::n, b::h, b::w, b::y, b::x, b::c / b::block>>(x)));
  else
    return reshape<To>(transpose<0, 1, 4, 2, 5, 3>(reshape<dims<b::n, b::h, b::w, b::c / b::block, b::y, b::x>>(x)));
}
template <int Block, depth_order Order, class X>
auto gather_pixels(const X& images) {
  using b = image_blocks<dims_t<X>, Block, Block>;
  using To = dims<b::n, b::h / b::y, b::w / b::x, b::c * b::block>;
  const auto x = reshape<divided_images<b>>(images);
  if constexpr (Order == depth_order::dcr)
    return reshape<To>(transpose<0, 1, 3, 2, 4, 5>(x));
  else
    return reshape<To>(transpose<0, 1, 3, 5, 2, 4>(x));
}

}  // namespace detail

/// Moves channels into blocks of pixels (tf.nn.depth_to_space): `depth_to_space<2>(x)` of images `[batch, h, w, 4 * c]`
/// is `[batch, 2 * h, 2 * w, c]`. Throws invalid_argument if a run-time extent is not divisible.
template <int Block, depth_order Order = depth_order::dcr, Expression Expr>
[[nodiscard]] auto depth_to_space(const Expr& images) {
  using mistaken = detail::depth_mistake<Expr, Block>;
  static_assert(
      correct<mistaken>,
      "depth_to_space: needs images [batch, height, width, channels], with channels divisible by block * block");
  return detail::unless<mistaken>(images, [](const auto& x) { return detail::spread_channels<Block, Order>(x); });
}

/// Moves blocks of pixels into channels, the inverse of depth_to_space (tf.nn.space_to_depth): `space_to_depth<2>(x)`
/// of images `[batch, h, w, c]` is `[batch, h / 2, w / 2, 4 * c]`.
template <int Block, depth_order Order = depth_order::dcr, Expression Expr>
[[nodiscard]] auto space_to_depth(const Expr& images) {
  using mistaken = detail::blocks_mistake<Expr, Block>;
  static_assert(correct<mistaken>,
                "space_to_depth: needs images [batch, height, width, channels] that can be divided into blocks");
  return detail::unless<mistaken>(images, [](const auto& x) { return detail::gather_pixels<Block, Order>(x); });
}

/// depth_to_space in PyTorch's order (torch.nn.functional.pixel_shuffle): the channels of an image `[batch, h, w, c]`
/// are those of PyTorch's `[batch, c, h, w]`, so that trained filters need no other order.
template <int Block, Expression Expr>
[[nodiscard]] auto pixel_shuffle(const Expr& images) {
  using mistaken = detail::depth_mistake<Expr, Block>;
  static_assert(
      correct<mistaken>,
      "pixel_shuffle: needs images [batch, height, width, channels], with channels divisible by factor * factor");
  return detail::unless<mistaken>(images,
                                  [](const auto& x) { return detail::spread_channels<Block, depth_order::crd>(x); });
}

/// space_to_depth in PyTorch's order (torch.nn.functional.pixel_unshuffle).
template <int Block, Expression Expr>
[[nodiscard]] auto pixel_unshuffle(const Expr& images) {
  using mistaken = detail::blocks_mistake<Expr, Block>;
  static_assert(correct<mistaken>,
                "pixel_unshuffle: needs images [batch, height, width, channels] that can be divided into blocks");
  return detail::unless<mistaken>(images,
                                  [](const auto& x) { return detail::gather_pixels<Block, depth_order::crd>(x); });
}

/// Moves blocks of pixels into the batch (tf.space_to_batch): `space_to_batch<2>(x)` of images `[batch, h, w, c]` is
/// `[4 * batch, h / 2, w / 2, c]`, all images for the first pixel of the blocks first. `pad` adds the paddings.
template <int Height, int Width = Height, Expression Expr>
[[nodiscard]] auto space_to_batch(const Expr& images) {
  using mistaken = detail::blocks_mistake<Expr, Height, Width>;
  static_assert(
      correct<mistaken>,
      "space_to_batch: needs images [batch, height, width, channels] that can be divided into blocks; pad them");
  return detail::unless<mistaken>(images, []<class X>(const X& x) {
    using b = detail::image_blocks<dims_t<X>, Height, Width>;
    return reshape<dims<b::block * b::n, b::h / b::y, b::w / b::x, b::c>>(
        transpose<2, 4, 0, 1, 3, 5>(reshape<detail::divided_images<b>>(x)));
  });
}

/// The inverse of space_to_batch (tf.batch_to_space). `slice` crops the result.
template <int Height, int Width = Height, Expression Expr>
[[nodiscard]] auto batch_to_space(const Expr& images) {
  using D = dims_t<Expr>;
  using mistaken = first_mistake<images_are_not_of_rank_4<D>, extents_not_divisible<D, Height * Width, 1, 1, 1>>;
  static_assert(correct<mistaken>,
                "batch_to_space: needs images [batch, height, width, channels], with a batch divisible by the block");
  return detail::unless<mistaken>(images, []<class X>(const X& x) {
    using b = detail::image_blocks<dims_t<X>, Height, Width>;
    return reshape<dims<b::n / b::block, b::h * b::y, b::w * b::x, b::c>>(
        transpose<2, 3, 0, 4, 1, 5>(reshape<dims<b::y, b::x, b::n / b::block, b::h, b::w, b::c>>(x)));
  });
}

template <auto...>
auto depth_to_space(...) WEFT_DELETED;  // the block is a template argument: depth_to_space<2>(images)
template <auto...>
auto space_to_depth(...) WEFT_DELETED;  // the block is a template argument: space_to_depth<2>(images)
template <auto...>
auto pixel_shuffle(...) WEFT_DELETED;  // the factor is a template argument: pixel_shuffle<2>(images)
template <auto...>
auto pixel_unshuffle(...) WEFT_DELETED;  // the factor is a template argument: pixel_unshuffle<2>(images)

}  // namespace weft
