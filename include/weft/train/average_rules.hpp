// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/update.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft::detail {

/// Updates an average as an optimizer updates a variable, with the averaged value as the gradient. One kernel thus
/// updates many averages, with the same bits on CPUs and GPUs.
struct moving_average_rule {
  hyperparameter weight = 0.001;  // 1 - decay

  static constexpr const char* name = "moving_average";
  template <class V>
  WEFT_HOST_DEVICE void update(V& average, V value) const {
    average -= (average - value) * V(weight);
  }
};
struct debiased_average_rule {
  hyperparameter weight = 0.001;

  static constexpr const char* name = "debiased_moving_average";
  constexpr auto slots() const { return slot_list{slot("biased"), scalar_slot("weights")}; }
  // Sums the weights: TensorFlow's 1 - decay^n loses three digits in the first steps.
  template <class V>
  WEFT_HOST_DEVICE void advance(V& weights) const {
    weights -= (weights - V(1)) * V(weight);
  }
  template <class V>
  WEFT_HOST_DEVICE void update(V& average, V& biased, V weights, V value) const {
    biased -= (biased - value) * V(weight);
    average = biased / weights;
  }
};

}  // namespace weft::detail

#pragma pop_macro("slots")
