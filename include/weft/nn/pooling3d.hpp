// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/pooling3d.hpp>

/// Pools of volumes [batch, depth, height, width, channels] as layers for `sequential`. Not part of `<weft/nn.hpp>`.
namespace weft::nn {

/// weft::max_pool3d (tf.keras.layers.MaxPooling3D, torch.nn.MaxPool3d).
template <size3d Window, size3d Stride = Window, padding3d Padding = padding3d::valid>
struct max_pool3d {
  auto operator()(const Expression auto& x) const { return weft::max_pool3d<Window, Stride, Padding>(x); }
};

/// weft::avg_pool3d (tf.keras.layers.AveragePooling3D).
template <size3d Window, size3d Stride = Window, padding3d Padding = padding3d::valid>
struct avg_pool3d {
  auto operator()(const Expression auto& x) const { return weft::avg_pool3d<Window, Stride, Padding>(x); }
};

/// weft::adaptive_avg_pool3d (torch.nn.AdaptiveAvgPool3d).
template <size3d Result>
struct adaptive_avg_pool3d {
  auto operator()(const Expression auto& x) const { return weft::adaptive_avg_pool3d<Result>(x); }
};

/// weft::adaptive_max_pool3d (torch.nn.AdaptiveMaxPool3d).
template <size3d Result>
struct adaptive_max_pool3d {
  auto operator()(const Expression auto& x) const { return weft::adaptive_max_pool3d<Result>(x); }
};

}  // namespace weft::nn
