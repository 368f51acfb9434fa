// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// Adam with an exponentially weighted maximum of gradients (Kingma and Ba 2015, section 7.1), as torch.optim.Adamax.
struct adamax {
  hyperparameter learning_rate = 0.002, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

  static constexpr const char* name = "adamax";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"},
                                                    {"beta1", hyperparameter_range::below_one},
                                                    {"beta2", hyperparameter_range::below_one},
                                                    {"epsilon"}};
  constexpr auto slots() const { return slot_list{slot("m"), slot("v"), scalar_slot("beta1_power", 1)}; }

  template <class V>
  WEFT_HOST_DEVICE void advance(V& beta1_power) const {
    beta1_power *= beta1;
  }
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& m, V& v, V beta1_power, V gradient) const {
    const V rate = learning_rate / (V(1) - beta1_power);
    m += (gradient - m) * (V(1) - beta1);
    v = max(beta2 * v, abs(gradient) + epsilon);
    variable -= rate * m / v;
  }

#include <weft/train/members.inc>
};

}  // namespace weft

#pragma pop_macro("slots")
