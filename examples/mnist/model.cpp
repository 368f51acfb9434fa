// SPDX-License-Identifier: BSL-1.0
#include "model.hpp"

using namespace weft;

template <class Images>
auto two_layers::logits_of(const Images& from) const {
  auto hidden = sigmoid(matmul(from, layers_.w1) + layers_.b1);
  return let(matmul(hidden, layers_.w2) + layers_.b2);
}

template <class Place>
two_layers::weights two_layers::make_weights(std::int64_t hidden_units, const Place& place) {
  const device_scope on(g, place);
  g.set(dyn<"hidden">, hidden_units);
  weights made;
  made.w1 = variable<float, dims<784, dyn<"hidden">>>(g, "hidden/weights", init::normal{.stddev = 0.05});
  made.b1 = variable<float, dims<dyn<"hidden">>>(g, "hidden/bias", init::zeros{});
  made.w2 = variable<float, dims<dyn<"hidden">, 10>>(g, "softmax/weights", init::normal{.stddev = 0.1});
  made.b2 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});
  return made;
}

template <class Place>
two_layers::two_layers(const flags& f, const training_recipe& recipe, const Place& place,
                       const training_input::source& input)
    : classifier(f.seed), layers_(make_weights(f.hidden_units, place)) {
  logits = logits_of(images);
  loss = mean(softmax_cross_entropy(logits, labels));
  accuracy = mean(cast<float>(argmax<1>(logits) == labels));
  cost = loss;
  if (input) {
    const training_input taken = input(g);
    cost = mean(softmax_cross_entropy(logits_of(taken.images), taken.labels));
  }
  train = minimize(recipe, cost);
}

template two_layers::two_layers(const flags&, const training_recipe&, const device_spec&,
                                const training_input::source&);
template two_layers::two_layers(const flags&, const training_recipe&, const variable_placement&,
                                const training_input::source&);
