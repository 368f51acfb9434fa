#pragma once

#include <weft/nn/layer.hpp>
#include <weft/ops/dropout.hpp>

namespace weft::nn {

/// For training, sets elements at random to zero, at `rate`, and divides the others by 1 - rate; for inference, the
/// operand itself (tf.keras.layers.Dropout, torch.nn.Dropout). See weft::dropout.
struct dropout {
  double rate = 0.5;
  random_options options{};

  template <Expression X>
  auto operator()(const X& x, mode how) const {
    return how == mode::training ? weft::dropout(x, rate, options) : node<value_t<X>, dims_t<X>, device_t<X>>(let(x));
  }
};

}  // namespace weft::nn
