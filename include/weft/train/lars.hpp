// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// Momentum with, for each variable, a rate proportional to its norm (You, Gitman and Ginsburg 2017, algorithm 1). If
/// the variable or its gradient is 0, the rate is learning_rate.
struct lars {
  hyperparameter learning_rate = 0.1, momentum = 0.9, weight_decay = 1e-4, trust = 0.001;

  static constexpr const char* name = "lars";
  static constexpr hyperparameter_limit limits[] = {
      {"learning_rate"}, {"momentum", hyperparameter_range::up_to_one}, {"weight_decay"}, {"trust"}};
  constexpr auto slots() const { return slot_list{slot("velocity")}; }

  template <class V>
  auto norms(V variable, V, V gradient) const {
    return norm_list{variable, gradient};
  }
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& velocity, V gradient, V length, V slope) const {
    const V ratio = trust * length / (slope + weight_decay * length);
    const V rate = learning_rate * (length > V(0) && slope > V(0) ? ratio : V(1));
    velocity = momentum * velocity + rate * (gradient + weight_decay * variable);
    variable -= velocity;
  }

#include <weft/train/members.inc>
};

}  // namespace weft

#pragma pop_macro("slots")
