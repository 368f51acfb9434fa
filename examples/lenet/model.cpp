// SPDX-License-Identifier: BSL-1.0
#include "model.hpp"

#include <weft/nn.hpp>

using namespace weft;

namespace {

/// Images [batch, 28, 28, 1]; the extents of every layer follow and are checked when this file compiles.
struct network {
  nn::conv2d<5, 32> conv1{.activation = nn::relu, .weights_init = init::he_normal{}};
  nn::conv2d<5, 64> conv2{.activation = nn::relu, .weights_init = init::he_normal{}};
  nn::dense<1024> dense{.activation = nn::relu, .weights_init = init::he_normal{}};
  nn::dense<10> softmax{.weights_init = init::glorot_normal{}};

  auto operator()(const auto& images) const {
    auto halved = max_pool2d<2>(conv1(images));
    auto quartered = max_pool2d<2>(conv2(halved));
    return softmax(dense(nn::flatten()(quartered)));
  }
};

}  // namespace

lenet::lenet(const training_flags& f, std::int64_t steps, std::int64_t steps_per_epoch) : classifier(f.seed) {
  logits = nn::named(network(), "")(reshape<dims<dyn<"batch">, 28, 28, 1>>(images));
  loss = mean(softmax_cross_entropy(logits, labels));
  accuracy = mean(cast<float>(argmax<1>(logits) == labels));
  train = minimize(f.recipe(steps, steps_per_epoch), loss);
}
