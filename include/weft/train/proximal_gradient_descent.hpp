// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

namespace weft {

/// Gradient descent followed by the exact proximal step of l1 and l2 (Duchi and Singer 2009), as
/// tf.train.ProximalGradientDescentOptimizer.
struct proximal_gradient_descent {
  hyperparameter learning_rate = 0.01, l1 = 0, l2 = 0;

  static constexpr const char* name = "proximal_gradient_descent";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"}, {"l1"}, {"l2"}};
  static constexpr bool by_rows = true;

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V gradient) const {
    const V there = variable - learning_rate * gradient, pull = V(learning_rate) * V(l1);
    variable = (max(V(0), there - pull) + min(V(0), there + pull)) / (V(1) + V(learning_rate) * V(l2));
  }

#include <weft/train/members.inc>
};

}  // namespace weft
