// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// Adam with Nesterov's momentum (Dozat 2016), as torch.optim.NAdam. The momentum of step t is
/// beta1 * (1 - momentum_decay^t / 2): PyTorch's momentum_decay of 0.004 is 0.96^0.004 here.
struct nadam {
  hyperparameter learning_rate = 0.002, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum_decay = 0.9998367253526753;

  static constexpr const char* name = "nadam";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"},
                                                    {"beta1", hyperparameter_range::below_one},
                                                    {"beta2", hyperparameter_range::below_one},
                                                    {"epsilon"},
                                                    {"momentum_decay", hyperparameter_range::up_to_one}};
  constexpr auto slots() const {
    return slot_list{slot("m"), slot("v"), scalar_slot("decay_power", 1), scalar_slot("momentum_product", 1),
                     scalar_slot("beta2_power", 1)};
  }

  template <class V>
  WEFT_HOST_DEVICE void advance(V& decay_power, V& momentum_product, V& beta2_power) const {
    decay_power *= momentum_decay;
    momentum_product *= momentum(decay_power);
    beta2_power *= beta2;
  }
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& m, V& v, V decay_power, V momentum_product, V beta2_power,
                               V gradient) const {
    const V next = momentum(decay_power * momentum_decay);
    const V of_gradient = learning_rate * (V(1) - momentum(decay_power)) / (V(1) - momentum_product);
    const V of_mean = learning_rate * next / (V(1) - momentum_product * next), correction = V(1) - beta2_power;
    m += (gradient - m) * (V(1) - beta1);
    v += (gradient * gradient - v) * (V(1) - beta2);
    variable -= (of_gradient * gradient + of_mean * m) / (sqrt(v / correction) + epsilon);
  }

#include <weft/train/members.inc>

 private:
  template <class V>
  WEFT_HOST_DEVICE V momentum(V decay_power) const {
    return beta1 * (V(1) - V(0.5) * decay_power);
  }
};

}  // namespace weft

#pragma pop_macro("slots")
