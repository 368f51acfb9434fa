// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// Adaptive subgradients (Duchi, Hazan and Singer 2011), as tf.train.AdagradOptimizer.
struct adagrad {
  hyperparameter learning_rate = 0.01, initial_accumulator_value = 0.1;

  static constexpr const char* name = "adagrad";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"}, {"initial_accumulator_value"}};
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("accumulator", initial_accumulator_value)}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& accumulator, V gradient) const {
    accumulator += gradient * gradient;
    variable -= learning_rate * gradient / sqrt(accumulator);
  }

#include <weft/train/members.inc>
};

}  // namespace weft

#pragma pop_macro("slots")
