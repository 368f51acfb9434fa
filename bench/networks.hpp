// SPDX-License-Identifier: BSL-1.0
#pragma once

// The networks that several programs here time, and batches for them. Templates: a program compiles what it times.

#include <cstdint>
#include <weft/weft.hpp>

#include "timing.hpp"

namespace bench {

using namespace weft;

using label_dims = dims<dyn<"batch">>;
using mlp_images = dims<dyn<"batch">, 784>;
using lenet_images = dims<dyn<"batch">, 28, 28, 1>;

struct network {
  node<float, dims<dyn<"batch">, 10>> logits;
  node<float> loss;
  effect train;
};

/// The 784-100-10 sigmoid classifier.
template <class Images, class Labels>
network mlp(graph& g, const Images& images, const Labels& labels) {
  auto w1 = variable<float, dims<784, 100>>(g, "hidden/weights", init::normal{.stddev = 0.05});
  auto b1 = variable<float, dims<100>>(g, "hidden/bias", init::zeros{});
  auto w2 = variable<float, dims<100, 10>>(g, "softmax/weights", init::normal{.stddev = 0.1});
  auto b2 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});
  auto logits = let(matmul(sigmoid(matmul(images, w1) + b1), w2) + b2);
  auto loss = mean(softmax_cross_entropy(logits, labels));
  return {logits, loss, gradient_descent{.learning_rate = 0.01}.minimize(loss)};
}

/// The network of TensorFlow's MNIST tutorial.
template <class Images, class Labels>
network lenet(graph& g, const Images& images, const Labels& labels) {
  auto w1 = variable<float, dims<5, 5, 1, 32>>(g, "conv1/weights", init::he_normal{});
  auto b1 = variable<float, dims<32>>(g, "conv1/bias", init::zeros{});
  auto w2 = variable<float, dims<5, 5, 32, 64>>(g, "conv2/weights", init::he_normal{});
  auto b2 = variable<float, dims<64>>(g, "conv2/bias", init::zeros{});
  auto w3 = variable<float, dims<3136, 1024>>(g, "dense/weights", init::he_normal{});
  auto b3 = variable<float, dims<1024>>(g, "dense/bias", init::zeros{});
  auto w4 = variable<float, dims<1024, 10>>(g, "softmax/weights", init::glorot_normal{});
  auto b4 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});
  auto pool1 = max_pool2d<2>(relu(conv2d(images, w1) + b1));
  auto pool2 = max_pool2d<2>(relu(conv2d(pool1, w2) + b2));
  auto hidden = relu(matmul(reshape<dims<dyn<"batch">, 3136>>(pool2), w3) + b3);
  auto logits = let(matmul(hidden, w4) + b4);
  auto loss = mean(softmax_cross_entropy(logits, labels));
  return {logits, loss, momentum{.learning_rate = 1e-3, .momentum = 0.9}.minimize(loss)};
}

template <class Dims>
tensor<float, Dims> random_images(const shape& extents) {
  tensor<float, Dims> x(extents);
  fill(x.data(), x.elements(), 0, 1);
  return x;
}

inline tensor<std::int32_t, label_dims> some_labels(int batch) {
  tensor<std::int32_t, label_dims> y{shape(batch)};
  for (int i = 0; i < batch; ++i) y(i) = i % 10;
  return y;
}

}  // namespace bench
