// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/optimizer.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// Divides each gradient by the root of a running mean of its squares (Tieleman and Hinton 2012), as
/// tf.train.RMSPropOptimizer does: the mean starts at 1, and epsilon is added under the root.
struct rmsprop {
  hyperparameter learning_rate = 0.001, decay = 0.9, momentum = 0, epsilon = 1e-10;

  static constexpr const char* name = "rmsprop";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"},
                                                    {"decay", hyperparameter_range::up_to_one},
                                                    {"momentum", hyperparameter_range::up_to_one},
                                                    {"epsilon"}};
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("rms", 1), slot("momentum")}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& rms, V& velocity, V gradient) const {
    rms += (gradient * gradient - rms) * (V(1) - decay);
    velocity = momentum * velocity + learning_rate * gradient / sqrt(rms + epsilon);
    variable -= velocity;
  }

#include <weft/train/members.inc>
};

/// rmsprop with an estimate of the variance: subtracts the square of the gradients' running mean (Graves 2013), as
/// tf.train.RMSPropOptimizer(centered=True).
struct centered_rmsprop {
  hyperparameter learning_rate = 0.001, decay = 0.9, momentum = 0, epsilon = 1e-10;

  static constexpr const char* name = "centered_rmsprop";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"},
                                                    {"decay", hyperparameter_range::up_to_one},
                                                    {"momentum", hyperparameter_range::up_to_one},
                                                    {"epsilon"}};
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("rms", 1), slot("mg"), slot("momentum")}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& rms, V& mean, V& velocity, V gradient) const {
    rms += (gradient * gradient - rms) * (V(1) - decay);
    mean += (gradient - mean) * (V(1) - decay);
    velocity = momentum * velocity + learning_rate * gradient / sqrt(rms - mean * mean + epsilon);
    variable -= velocity;
  }

#include <weft/train/members.inc>
};

}  // namespace weft

#pragma pop_macro("slots")
