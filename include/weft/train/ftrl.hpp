// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// Follow the regularized leader (McMahan et al. 2013), as tf.train.FtrlOptimizer with its learning_rate_power of -0.5;
/// l1 makes variables exactly 0. `l2_shrinkage` is added to the gradient but not to the accumulators.
struct ftrl {
  hyperparameter learning_rate = 0.001, initial_accumulator_value = 0.1, l1 = 0, l2 = 0, l2_shrinkage = 0;

  static constexpr const char* name = "ftrl";
  static constexpr hyperparameter_limit limits[] = {
      {"learning_rate"}, {"initial_accumulator_value"}, {"l1"}, {"l2"}, {"l2_shrinkage"}};
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("accum", initial_accumulator_value), slot("linear")}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& accumulator, V& linear, V gradient) const {
    const V before = sqrt(accumulator);
    accumulator += gradient * gradient;
    const V after = sqrt(accumulator);
    linear += gradient + V(2) * l2_shrinkage * variable - (after - before) / learning_rate * variable;
    const V shrunk = max(V(0), linear - l1) + min(V(0), linear + l1);
    variable = -shrunk / (after / learning_rate + V(2) * l2);
  }

#include <weft/train/members.inc>
};

}  // namespace weft

#pragma pop_macro("slots")
