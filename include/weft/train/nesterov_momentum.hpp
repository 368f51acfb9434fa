// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// Momentum with Nesterov's look-ahead gradient (Nesterov 1983; Sutskever et al. 2013), as
/// tf.train.MomentumOptimizer(use_nesterov=True).
struct nesterov_momentum {
  hyperparameter learning_rate = 0.01, momentum = 0.9;

  static constexpr const char* name = "nesterov_momentum";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"}, {"momentum", hyperparameter_range::up_to_one}};
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("momentum")}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& velocity, V gradient) const {
    velocity = momentum * velocity + gradient;
    variable -= learning_rate * gradient + learning_rate * (momentum * velocity);
  }

#include <weft/train/members.inc>
};

}  // namespace weft

#pragma pop_macro("slots")
