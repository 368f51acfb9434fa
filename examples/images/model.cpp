// SPDX-License-Identifier: BSL-1.0
#include "model.hpp"

#include <weft/nn.hpp>

using namespace weft;

namespace {

struct network {
  nn::conv2d<5, 16> conv1{.activation = nn::relu, .weights_init = init::he_normal{}};
  nn::conv2d<5, 32> conv2{.activation = nn::relu, .weights_init = init::he_normal{}};
  nn::dense<128> dense{.activation = nn::relu, .weights_init = init::he_normal{}};
  nn::dense<image_classifier::classes> softmax{.weights_init = init::glorot_normal{}};

  auto operator()(const auto& images) const {
    auto halved = max_pool2d<2>(conv1(images));
    auto quartered = max_pool2d<2>(conv2(halved));
    return softmax(dense(nn::flatten()(quartered)));
  }
};

}  // namespace

image_classifier::image_classifier(std::uint64_t seed, double learning_rate)
    : g(seed),
      images(placeholder<float, dims<dyn<"batch">, side, side, 1>>(g, "images")),
      labels(placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels")),
      logits(nn::named(network(), "")(images)),
      loss(mean(softmax_cross_entropy(logits, labels))),
      accuracy(mean(cast<float>(argmax<1>(logits) == labels))),
      train(adam{.learning_rate = learning_rate}.minimize(loss)) {}
