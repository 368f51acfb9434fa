// SPDX-License-Identifier: BSL-1.0
// A convolutional network with batch normalization tells horizontal, vertical and diagonal stripes apart.
#include <cstdio>
#include <weft/checkpoint/weights.hpp>
#include <weft/nn.hpp>
#include <weft/weft.hpp>
#include "data.hpp"
using namespace weft;
using nn::mode;

/// The scores of the three classes. Training normalizes by the statistics of the batch and updates their moving
/// averages; inference uses the averages.
struct classifier {
  nn::conv2d<3, 8> conv{.use_bias = false, .weights_init = init::he_normal{}};
  nn::batch_norm<> norm{.momentum = 0.9, .epsilon = 1e-5, .activation = nn::relu};
  nn::dense<3> scores{.use_bias = false};

  auto operator()(const auto& images, mode how) const {
    return scores(nn::flatten()(max_pool2d<2>(norm(conv(images), how))));
  }
};

int main(int argc, char** argv) {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 8, 8, 1>>(g, "images");
  auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  const auto net = nn::named(classifier(), "stripes");
  auto loss = mean(softmax_cross_entropy(net(images, mode::training), labels));
  auto train = momentum{.learning_rate = 0.02}.minimize(loss);
  auto inferred = net(images, mode::inference);
  auto test_loss = mean(softmax_cross_entropy(inferred, labels));
  auto accuracy = mean(cast<float>(argmax<1>(inferred) == labels));

  session s{g};
  if (argc > 1) load_weights(argv[1], s);  // else the variables begin with random values
  auto step = s.prepare(fetch(loss, train), feed(images, labels));
  for (int i = 1; i <= 30; ++i) {
    auto [x, y] = gallery::stripes(32 * i, 32);
    auto [cost, trained] = step(x, y);
    if (i % 5 == 0) std::printf("step %d: loss %.6f\n", i, cost);
  }
  auto [x, y] = gallery::stripes(5000, 200);
  auto [cost, share] = s.run(fetch(test_loss, accuracy), with(images, x), with(labels, y));
  std::printf("test: loss %.6f, accuracy %.3f\n", cost, share);
}
