// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/pooling1d.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Pools of sequences [batch, length, channels] as layers for `sequential`. Not part of `<weft/nn.hpp>`.
namespace weft::nn {

/// weft::max_pool1d (tf.keras.layers.MaxPooling1D, torch.nn.MaxPool1d).
template <int Window, int Stride = Window, padding Padding = padding::valid>
struct max_pool1d {
  auto operator()(const Expression auto& x) const { return weft::max_pool1d<Window, Stride, Padding>(x); }
};

/// weft::avg_pool1d (tf.keras.layers.AveragePooling1D).
template <int Window, int Stride = Window, padding Padding = padding::valid>
struct avg_pool1d {
  auto operator()(const Expression auto& x) const { return weft::avg_pool1d<Window, Stride, Padding>(x); }
};

/// The mean over the steps: [batch, channels] (tf.keras.layers.GlobalAveragePooling1D).
struct global_avg_pool1d {
  auto operator()(const Expression auto& x) const { return let(mean<1>(x)); }
};

/// The maximum over the steps: [batch, channels] (tf.keras.layers.GlobalMaxPooling1D).
struct global_max_pool1d {
  auto operator()(const Expression auto& x) const { return let(max<1>(x)); }
};

}  // namespace weft::nn
