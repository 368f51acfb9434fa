// A convolutional network with batch normalization tells horizontal, vertical and diagonal stripes apart.
#include <cstdio>
#include <weft/checkpoint/weights.hpp>
#include <weft/weft.hpp>
#include "data.hpp"
using namespace weft;

using image_batch = dims<dyn<"batch">, 8, 8, 1>;

/// Training uses the statistics of the batch and updates their moving averages; inference uses the averages.
template <Expression X>
node<float, dims_t<X>> batch_normalization(const char* name, const X& x, bool training) {
  graph& g = graph_of(x);
  const variable_scope layer(g, name, reuse::automatic);
  constexpr int channels = static_extent<X, -1>();
  auto scale = variable<float, dims<channels>>(g, "scale", init::ones{});
  auto shift = variable<float, dims<channels>>(g, "shift", init::zeros{});
  auto moving_mean = variable<float, dims<channels>>(g, "mean", init::zeros{}, variable_kind::averaged);
  auto moving_variance = variable<float, dims<channels>>(g, "variance", init::ones{}, variable_kind::averaged);
  if (!training) return (x - moving_mean) * (scale * rsqrt(moving_variance + 1e-5f)) + shift;
  auto average = let(mean<0, 1, 2>(x));
  auto variance = let(mean<0, 1, 2>(square(x - average)));
  auto n = cast<float>(size(x)) / float(channels);
  add_update(assign(moving_mean, 0.9f * moving_mean + 0.1f * average));
  add_update(assign(moving_variance, 0.9f * moving_variance + 0.1f * n / (n - 1.0f) * variance));
  return (x - average) * (scale * rsqrt(variance + 1e-5f)) + shift;
}

/// The scores of the three classes.
node<float, dims<dyn<"batch">, 3>> scores(const node<float, image_batch>& images, bool training) {
  graph& g = graph_of(images);
  const variable_scope model(g, "stripes", reuse::automatic);
  auto filters = variable<float, dims<3, 3, 1, 8>>(g, "filters", init::he_normal{});
  auto weights = variable<float, dims<16 * 8, 3>>(g, "weights", init::glorot_uniform{});
  auto maps = max_pool2d<2>(relu(batch_normalization("norm", conv2d(images, filters), training)));
  return matmul(reshape<dims<dyn<"batch">, 16 * 8>>(maps), weights);
}

int main(int argc, char** argv) {
  graph g;
  auto images = placeholder<float, image_batch>(g, "images");
  auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  auto loss = mean(softmax_cross_entropy(scores(images, true), labels));
  auto train = momentum{.learning_rate = 0.02}.minimize(loss);
  auto inferred = scores(images, false);
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
