// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <functional>

#include <weft/weft.hpp>

#include "../classifier.hpp"
#include "../placement.hpp"
#include "flags.hpp"

/// A step's images and labels, which it takes from a queue.
struct training_input {
  weft::node<float, weft::dims<weft::dyn<"dequeued">, 784>> images;
  weft::node<std::int32_t, weft::dims<weft::dyn<"dequeued">>> labels;

  using source = std::function<training_input(weft::graph&)>;
};

/// The model. The width of the hidden layer is an extent with a name: the compiler checks that all that share it agree,
/// and the flag gives it its value before the variables are made. For GPUs its source alone is nvcc's: it has the
/// expressions that become kernels.
struct two_layers : classifier {
  weft::node<float> cost;  // the loss of a training step: that of what is fed, or of its own input

  /// `place` says where variables live: a device_spec of this process, or a variable_placement on the parameter
  /// servers. `input`: what training steps learn from, where nobody feeds them.
  template <class Place>
  two_layers(const flags& f, const training_recipe& recipe, const Place& place,
             const training_input::source& input = {});

 private:
  struct weights {
    weft::variable_node<float, weft::dims<784, weft::dyn<"hidden">>> w1;
    weft::variable_node<float, weft::dims<weft::dyn<"hidden">>> b1;
    weft::variable_node<float, weft::dims<weft::dyn<"hidden">, 10>> w2;
    weft::variable_node<float, weft::dims<10>> b2;
  } layers_;

  template <class Place>
  weights make_weights(std::int64_t hidden_units, const Place& place);
  template <class Images>
  auto logits_of(const Images& from) const;
};
