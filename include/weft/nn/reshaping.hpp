// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/pad_modes.hpp>
#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/ops/images/depth_to_space.hpp>

/// Layers without variables that change extents, for `sequential`. Not part of `<weft/nn.hpp>`. Any other function of a
/// node is a part of `sequential` too: `[](const auto& x) { return reverse<1>(x); }`.
namespace weft::nn {

/// Gives the elements of each example other extents: `reshape_to<7, 7, 64>` maps [batch, 3136] to [batch, 7, 7, 64]
/// (tf.keras.layers.Reshape, torch.nn.Unflatten). One extent can be -1, which is deduced.
template <auto... Extents>
struct reshape_to {
  template <Expression X>
  auto operator()(const X& x) const {
    static_assert(dims_t<X>::rank > 0, "reshape_to: needs a batch of examples, [batch, ...]");
    return let(reshape<dims<extent_of<dims_t<X>, 0>(), Extents...>>(x));
  }
};

/// Pads height and width of images [batch, height, width, channels] with zeros (tf.keras.layers.ZeroPadding2D,
/// torch.nn.ZeroPad2d): `zero_pad2d<1>`, or by sides, `zero_pad2d<top, bottom, left, right>`.
template <int Top, int Bottom = Top, int Left = Top, int Right = Left>
struct zero_pad2d {
  auto operator()(const Expression auto& images) const { return pad<2, Left, Right>(pad<1, Top, Bottom>(images)); }
};

/// Pads by mirrored or repeated pixels (torch.nn.ReflectionPad2d, ReplicationPad2d, CircularPad2d): `pad2d<
/// pad_mode::reflect, 1>`.
template <pad_mode Mode, int Top, int Bottom = Top, int Left = Top, int Right = Left>
struct pad2d {
  auto operator()(const Expression auto& images) const {
    return pad<2, Left, Right, Mode>(pad<1, Top, Bottom, Mode>(images));
  }
};

/// Repeats each pixel of images [batch, height, width, channels]: [batch, Height * height, Width * width, channels]
/// (tf.keras.layers.UpSampling2D, torch.nn.UpsamplingNearest2d). For other sizes and methods, see
/// ops/images/resize.hpp.
template <int Height, int Width = Height>
struct upsample2d {
  auto operator()(const Expression auto& images) const { return repeat<1, Height>(repeat<2, Width>(images)); }
};

/// weft::pixel_shuffle: channels as blocks of pixels, in PyTorch's order (torch.nn.PixelShuffle).
template <int Block>
struct pixel_shuffle {
  auto operator()(const Expression auto& images) const { return weft::pixel_shuffle<Block>(images); }
};
/// weft::pixel_unshuffle: blocks of pixels as channels (torch.nn.PixelUnshuffle).
template <int Block>
struct pixel_unshuffle {
  auto operator()(const Expression auto& images) const { return weft::pixel_unshuffle<Block>(images); }
};

}  // namespace weft::nn
