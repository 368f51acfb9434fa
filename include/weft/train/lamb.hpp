// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// Adam with decoupled weight decay and, for each variable, a rate proportional to its norm (You et al. 2020,
/// algorithm 2). If the variable or its direction is 0, the rate is learning_rate.
struct lamb {
  hyperparameter learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0.01;

  static constexpr const char* name = "lamb";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"},
                                                    {"beta1", hyperparameter_range::below_one},
                                                    {"beta2", hyperparameter_range::below_one},
                                                    {"epsilon"},
                                                    {"weight_decay"}};
  constexpr auto slots() const {
    return slot_list{slot("m"), slot("v"), scalar_slot("beta1_power", 1), scalar_slot("beta2_power", 1)};
  }

  template <class V>
  WEFT_HOST_DEVICE void advance(V& beta1_power, V& beta2_power) const {
    beta1_power *= beta1;
    beta2_power *= beta2;
  }
  template <class V>
  auto norms(V variable, V m, V v, V beta1_power, V beta2_power, V gradient) const {
    return norm_list{variable, direction(variable, m, v, beta1_power, beta2_power, gradient)};
  }
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& m, V& v, V beta1_power, V beta2_power, V gradient, V length,
                               V length_of_direction) const {
    const V d = direction(variable, m, v, beta1_power, beta2_power, gradient);
    const V ratio = length > V(0) && length_of_direction > V(0) ? length / length_of_direction : V(1);
    variable -= learning_rate * ratio * d;
  }

#include <weft/train/members.inc>

 private:
  /// Updates the moments and returns the step's direction.
  template <class V>
  WEFT_HOST_DEVICE V direction(V variable, V& m, V& v, V beta1_power, V beta2_power, V gradient) const {
    m += (gradient - m) * (V(1) - beta1);
    v += (gradient * gradient - v) * (V(1) - beta2);
    return m / (V(1) - beta1_power) / (sqrt(v / (V(1) - beta2_power)) + epsilon) + weight_decay * variable;
  }
};

}  // namespace weft

#pragma pop_macro("slots")
