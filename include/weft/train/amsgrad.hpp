// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// Adam with the largest mean of squares so far, so that step sizes never grow (Reddi, Kale and Kumar 2018), as
/// torch.optim.Adam(amsgrad=True).
struct amsgrad {
  hyperparameter learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

  static constexpr const char* name = "amsgrad";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"},
                                                    {"beta1", hyperparameter_range::below_one},
                                                    {"beta2", hyperparameter_range::below_one},
                                                    {"epsilon"}};
  constexpr auto slots() const {
    return slot_list{slot("m"), slot("v"), slot("max_v"), scalar_slot("beta1_power", 1), scalar_slot("beta2_power", 1)};
  }

  template <class V>
  WEFT_HOST_DEVICE void advance(V& beta1_power, V& beta2_power) const {
    beta1_power *= beta1;
    beta2_power *= beta2;
  }
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& m, V& v, V& largest, V beta1_power, V beta2_power, V gradient) const {
    const V rate = learning_rate / (V(1) - beta1_power), root = sqrt(V(1) - beta2_power);
    m += (gradient - m) * (V(1) - beta1);
    v += (gradient * gradient - v) * (V(1) - beta2);
    largest = max(largest, v);
    variable -= rate * m / (sqrt(largest) / root + epsilon);
  }

#include <weft/train/members.inc>
};

}  // namespace weft

#pragma pop_macro("slots")
