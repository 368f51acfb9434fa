#include "model.hpp"

using namespace weft;

lenet::lenet(const training_flags& f, std::int64_t steps, std::int64_t steps_per_epoch) : classifier(f.seed) {
  logits = layers();
  loss = mean(softmax_cross_entropy(logits, labels));
  accuracy = mean(cast<float>(argmax<1>(logits) == labels));
  train = minimize(f.recipe(steps, steps_per_epoch), loss);
}

node<float, dims<dyn<"batch">, 10>> lenet::layers() {
  auto w1 = variable<float, dims<5, 5, 1, 32>>(g, "conv1/weights", init::he_normal{});
  auto b1 = variable<float, dims<32>>(g, "conv1/bias", init::zeros{});
  auto w2 = variable<float, dims<5, 5, 32, 64>>(g, "conv2/weights", init::he_normal{});
  auto b2 = variable<float, dims<64>>(g, "conv2/bias", init::zeros{});
  auto w3 = variable<float, dims<3136, 1024>>(g, "dense/weights", init::he_normal{});
  auto b3 = variable<float, dims<1024>>(g, "dense/bias", init::zeros{});
  auto w4 = variable<float, dims<1024, 10>>(g, "softmax/weights", init::glorot_normal{});
  auto b4 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});

  auto pixels = reshape<dims<dyn<"batch">, 28, 28, 1>>(images);
  auto halved = max_pool2d<2>(relu(conv2d(pixels, w1) + b1));     // [batch, 14, 14, 32]
  auto quartered = max_pool2d<2>(relu(conv2d(halved, w2) + b2));  // [batch, 7, 7, 64]
  auto hidden = relu(matmul(reshape<dims<dyn<"batch">, 3136>>(quartered), w3) + b3);
  return let(matmul(hidden, w4) + b4);
}
