// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/layer.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/tensor/mistake.hpp>

namespace weft::nn {

/// In training, sets random elements to zero with probability `rate` and divides the others by 1 - rate. In inference,
/// returns the operand (tf.keras.layers.Dropout, torch.nn.Dropout). See weft::dropout.
struct dropout {
  double rate = 0.5;
  random_options options{};

  template <Expression X>
  auto operator()(const X& x, mode how) const {
    return how == mode::training ? weft::dropout(x, rate, options) : node<value_t<X>, dims_t<X>, device_t<X>>(let(x));
  }
  template <Expression X>
  auto operator()(const X& x) const {
    static_assert(correct<mode_is_missing<X>>,
                  "dropout: needs a mode, nn::mode::training or nn::mode::inference: drop(x, how)");
    return (*this)(x, mode::inference);
  }
  static constexpr bool needs_mode = true;
};

}  // namespace weft::nn
