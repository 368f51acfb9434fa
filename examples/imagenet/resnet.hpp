// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <string>

#include <weft/nn.hpp>
#include <weft/weft.hpp>

/// Residual networks (He et al., CVPR 2016) as torchvision has them: version 1.5, with the stride in the 3 x 3
/// convolution, batch normalization with momentum 0.9 and epsilon 1e-5, and torchvision's names of layers.
namespace imagenet {

using namespace weft;

constexpr conv2d_options strided(int stride, padding pad = padding::valid) { return {.stride = stride, .pad = pad}; }

inline nn::batch_norm<> norm() { return {.momentum = 0.9, .epsilon = 1e-5}; }
inline nn::batch_norm<> norm_relu() { return {.momentum = 0.9, .epsilon = 1e-5, .activation = nn::relu}; }

/// The shortcut of a block that changes the extents.
template <int Filters, int Stride>
using projection = nn::sequential<nn::conv2d<1, Filters, strided(Stride)>, nn::batch_norm<>>;
struct no_projection {};

template <int Filters, int Stride, bool Projected>
struct shortcut {
  static auto make() {
    if constexpr (Projected)
      return projection<Filters, Stride>({.use_bias = false, .weights_init = init::he_normal{}}, norm());
    else
      return no_projection();
  }
  using type = decltype(make());
};

/// Two 3 x 3 convolutions: the block of ResNet-18 and ResNet-34.
template <int Width, int Stride, bool Projected>
struct basic_block {
  static constexpr int width = Width;
  using shortcut_type = shortcut<Width, Stride, Projected>;

  nn::conv2d<3, Width, strided(Stride, padding::of(1))> conv1{.use_bias = false, .weights_init = init::he_normal{}};
  nn::batch_norm<> bn1 = norm_relu();
  nn::conv2d<3, Width, strided(1, padding::of(1))> conv2{.use_bias = false, .weights_init = init::he_normal{}};
  nn::batch_norm<> bn2 = norm_relu();
  typename shortcut_type::type downsample = shortcut_type::make();

  auto operator()(const auto& x, nn::mode how) const {
    const auto y = conv2(bn1(conv1(x), how));
    if constexpr (Projected)
      return bn2(y, downsample(x, how), how);
    else
      return bn2(y, x, how);
  }
};

/// 1 x 1, 3 x 3 and 1 x 1 convolutions: the block of ResNet-50 and larger ones.
template <int Width, int Stride, bool Projected>
struct bottleneck {
  static constexpr int width = 4 * Width;
  using shortcut_type = shortcut<4 * Width, Stride, Projected>;

  nn::conv2d<1, Width, strided(1)> conv1{.use_bias = false, .weights_init = init::he_normal{}};
  nn::batch_norm<> bn1 = norm_relu();
  nn::conv2d<3, Width, strided(Stride, padding::of(1))> conv2{.use_bias = false, .weights_init = init::he_normal{}};
  nn::batch_norm<> bn2 = norm_relu();
  nn::conv2d<1, 4 * Width, strided(1)> conv3{.use_bias = false, .weights_init = init::he_normal{}};
  nn::batch_norm<> bn3 = norm_relu();
  typename shortcut_type::type downsample = shortcut_type::make();

  auto operator()(const auto& x, nn::mode how) const {
    const auto y = conv3(bn2(conv2(bn1(conv1(x), how)), how));
    if constexpr (Projected)
      return bn3(y, downsample(x, how), how);
    else
      return bn3(y, x, how);
  }
};

/// Chains `Count` blocks. The first divides height and width by the stride.
template <template <int, int, bool> class Block, int Width, int Stride, int Count, bool Projected>
struct stage {
  Block<Width, Stride, Projected> first;
  std::array<Block<Width, 1, false>, Count - 1> rest;

  auto operator()(const auto& x, nn::mode how) const {
    auto y = first(x, how);
    for (const auto& block : rest) y = block(y, how);
    return y;
  }
  void visit(const std::string& path, nn::layer_visitor& v) const {
    v(path, "0", first);
    for (std::size_t i = 0; i < rest.size(); ++i) v(path, std::to_string(i + 1), rest[i]);
  }
};

/// Images [batch, height, width, 3], logits [batch, Classes]. `Width` is 64 in the paper.
template <template <int, int, bool> class Block, int Width, int Classes, int A, int B, int C, int D>
struct resnet {
  nn::conv2d<7, Width, strided(2, padding::of(3))> conv1{.use_bias = false, .weights_init = init::he_normal{}};
  nn::batch_norm<> bn1 = norm_relu();
  stage<Block, Width, 1, A, Block<Width, 1, false>::width != Width> layer1;
  stage<Block, 2 * Width, 2, B, true> layer2;
  stage<Block, 4 * Width, 2, C, true> layer3;
  stage<Block, 8 * Width, 2, D, true> layer4;
  nn::dense<Classes> fc;

  auto operator()(const auto& images, nn::mode how) const {
    const auto x = max_pool2d<3, 2, padding::of(1)>(bn1(conv1(images), how));
    const auto y = layer4(layer3(layer2(layer1(x, how), how), how), how);
    return fc(mean<1, 2>(y));
  }
};

template <int Classes, int Width = 64>
using resnet18 = resnet<basic_block, Width, Classes, 2, 2, 2, 2>;
template <int Classes, int Width = 64>
using resnet50 = resnet<bottleneck, Width, Classes, 3, 4, 6, 3>;

}  // namespace imagenet
