// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// Adapts the step size to the sizes of previous steps (Zeiler 2012), as tf.train.AdadeltaOptimizer.
struct adadelta {
  hyperparameter learning_rate = 0.001, rho = 0.95, epsilon = 1e-8;

  static constexpr const char* name = "adadelta";
  static constexpr hyperparameter_limit limits[] = {
      {"learning_rate"}, {"rho", hyperparameter_range::up_to_one}, {"epsilon"}};
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("accum"), slot("accum_update")}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& squares, V& squares_of_steps, V gradient) const {
    squares = rho * squares + (V(1) - rho) * (gradient * gradient);
    const V step = sqrt(squares_of_steps + epsilon) / sqrt(squares + epsilon) * gradient;
    squares_of_steps = rho * squares_of_steps + (V(1) - rho) * (step * step);
    variable -= learning_rate * step;
  }

#include <weft/train/members.inc>
};

}  // namespace weft

#pragma pop_macro("slots")
