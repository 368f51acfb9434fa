#include "model.hpp"

using namespace weft;

template <class Place>
classifier::classifier(const flags& f, std::int64_t steps, const Place& place)
    : g(static_cast<std::uint64_t>(f.seed)),
      images(placeholder<float, dims<dyn<"batch">, 784>>(g, "images")),
      labels(placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels")),
      logits(two_layers(f.hidden_units, place)),
      loss(mean(softmax_cross_entropy(logits, labels))),
      accuracy(mean(cast<float>(argmax<1>(logits) == labels))),
      train(minimize(f.optimizer, f.rate(), f.schedule, steps, loss)) {}

template <class Place>
node<float, dims<dyn<"batch">, 10>> classifier::two_layers(std::int64_t hidden_units, const Place& place) {
  const device_scope on(g, place);
  g.set(dyn<"hidden">, hidden_units);
  auto w1 = variable<float, dims<784, dyn<"hidden">>>(g, "hidden/weights", init::normal{.stddev = 0.05});
  auto b1 = variable<float, dims<dyn<"hidden">>>(g, "hidden/bias", init::zeros{});
  auto w2 = variable<float, dims<dyn<"hidden">, 10>>(g, "softmax/weights", init::normal{.stddev = 0.1});
  auto b2 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});
  auto hidden = sigmoid(matmul(images, w1) + b1);
  return let(matmul(hidden, w2) + b2);
}

template classifier::classifier(const flags&, std::int64_t, const device_spec&);
template classifier::classifier(const flags&, std::int64_t, const variable_placement&);
