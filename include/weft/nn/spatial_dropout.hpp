// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/layer.hpp>
#include <weft/ops/random/augmentation.hpp>

/// Dropout of whole channels, and dropout that preserves moments. Not part of `<weft/nn.hpp>`.
namespace weft::nn {

/// In training, sets whole channels of [batch, ..., channels] to zero with probability `rate` and divides the others by
/// 1 - rate (tf.keras.layers.SpatialDropout2D, torch.nn.Dropout2d). In inference, returns the operand. See
/// weft::spatial_dropout.
struct spatial_dropout {
  double rate = 0.5;
  random_options options{};

  template <Expression X>
  auto operator()(const X& x, mode how) const {
    return how == mode::training ? weft::spatial_dropout(x, rate, options)
                                 : node<value_t<X>, dims_t<X>, device_t<X>>(let(x));
  }
  template <Expression X>
  auto operator()(const X& x) const {
    static_assert(correct<mode_is_missing<X>>,
                  "spatial_dropout: needs a mode, nn::mode::training or nn::mode::inference: drop(x, how)");
    return (*this)(x, mode::inference);
  }
  static constexpr bool needs_mode = true;
};

/// Dropout that preserves mean 0 and variance 1, for nn::selu (torch.nn.AlphaDropout). In inference, returns the
/// operand. See weft::alpha_dropout.
struct alpha_dropout {
  double rate = 0.5;
  random_options options{};

  template <Expression X>
  auto operator()(const X& x, mode how) const {
    return how == mode::training ? weft::alpha_dropout(x, rate, options)
                                 : node<value_t<X>, dims_t<X>, device_t<X>>(let(x));
  }
  template <Expression X>
  auto operator()(const X& x) const {
    static_assert(correct<mode_is_missing<X>>,
                  "alpha_dropout: needs a mode, nn::mode::training or nn::mode::inference: drop(x, how)");
    return (*this)(x, mode::inference);
  }
  static constexpr bool needs_mode = true;
};

}  // namespace weft::nn
