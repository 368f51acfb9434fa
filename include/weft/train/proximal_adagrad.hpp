// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// AdaGrad followed by the exact proximal step of l1 and l2 (Duchi and Singer 2009), as
/// tf.train.ProximalAdagradOptimizer.
struct proximal_adagrad {
  hyperparameter learning_rate = 0.01, initial_accumulator_value = 0.1, l1 = 0, l2 = 0;

  static constexpr const char* name = "proximal_adagrad";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"}, {"initial_accumulator_value"}, {"l1"}, {"l2"}};
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("accumulator", initial_accumulator_value)}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& accumulator, V gradient) const {
    accumulator += gradient * gradient;
    const V rate = learning_rate / sqrt(accumulator), there = variable - rate * gradient, pull = rate * l1;
    variable = (max(V(0), there - pull) + min(V(0), there + pull)) / (V(1) + rate * l2);
  }

#include <weft/train/members.inc>
};

}  // namespace weft

#pragma pop_macro("slots")
