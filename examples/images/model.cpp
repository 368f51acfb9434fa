#include "model.hpp"

using namespace weft;

image_classifier::image_classifier(std::uint64_t seed, double learning_rate)
    : g(seed),
      images(placeholder<float, dims<dyn<"batch">, side, side, 1>>(g, "images")),
      labels(placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels")),
      logits(layers()),
      loss(mean(softmax_cross_entropy(logits, labels))),
      accuracy(mean(cast<float>(argmax<1>(logits) == labels))),
      train(adam{.learning_rate = learning_rate}.minimize(loss)) {}

node<float, dims<dyn<"batch">, image_classifier::classes>> image_classifier::layers() {
  auto w1 = variable<float, dims<5, 5, 1, 16>>(g, "conv1/weights", init::he_normal{});
  auto b1 = variable<float, dims<16>>(g, "conv1/bias", init::zeros{});
  auto w2 = variable<float, dims<5, 5, 16, 32>>(g, "conv2/weights", init::he_normal{});
  auto b2 = variable<float, dims<32>>(g, "conv2/bias", init::zeros{});
  auto w3 = variable<float, dims<1568, 128>>(g, "dense/weights", init::he_normal{});
  auto b3 = variable<float, dims<128>>(g, "dense/bias", init::zeros{});
  auto w4 = variable<float, dims<128, classes>>(g, "softmax/weights", init::glorot_normal{});
  auto b4 = variable<float, dims<classes>>(g, "softmax/bias", init::zeros{});

  auto halved = max_pool2d<2>(relu(conv2d(images, w1) + b1));     // [batch, 14, 14, 16]
  auto quartered = max_pool2d<2>(relu(conv2d(halved, w2) + b2));  // [batch, 7, 7, 32]
  auto hidden = relu(matmul(reshape<dims<dyn<"batch">, 1568>>(quartered), w3) + b3);
  return let(matmul(hidden, w4) + b4);
}
