// SPDX-License-Identifier: BSL-1.0
// A generative adversarial network learns to put points on a circle. Each of two optimizers trains one of the networks.
#include <cstdio>
#include <weft/checkpoint/weights.hpp>
#include <weft/train/adamw.hpp>
#include <weft/weft.hpp>
#include "data.hpp"
using namespace weft;

using points = dims<dyn<"batch">, 2>;

/// A network with a hidden layer; a second call with the same name uses the same variables.
template <int Out, Expression X>
auto network(const char* name, const X& x) {
  graph& g = graph_of(x);
  const variable_scope scope(g, name, reuse::automatic);
  auto w1 = variable<float, dims<2, 32>>(g, "w1", init::he_normal{});
  auto b1 = variable<float, dims<32>>(g, "b1", init::zeros{});
  auto w2 = variable<float, dims<32, Out>>(g, "w2", init::glorot_normal{});
  auto b2 = variable<float, dims<Out>>(g, "b2", init::zeros{});
  return let(matmul(tanh(matmul(x, w1) + b1), w2) + b2);
}

int main(int argc, char** argv) {
  graph g;
  auto real = placeholder<float, points>(g, "real");
  auto z = placeholder<float, points>(g, "z");
  auto fake = network<2>("generator", z);
  auto of_real = network<1>("discriminator", real), of_fake = network<1>("discriminator", fake);
  auto discriminator_loss = mean(softplus(-of_real)) + mean(softplus(of_fake));  // cross-entropy with 1 and 0
  auto generator_loss = mean(softplus(-of_fake));

  // Each minimize() leaves the other network as it is.
  const adamw optimizer{.learning_rate = 0.003, .beta1 = 0.5};
  auto train_discriminator = optimizer.minimize(discriminator_loss, variables_in(g, "discriminator"));
  auto train_generator = optimizer.minimize(generator_loss, variables_in(g, "generator"));

  session s{g};
  if (argc > 1) load_weights(argv[1], s);  // else the variables begin with random values
  auto judge = s.prepare(fetch(discriminator_loss, train_discriminator), feed(real, z));
  auto forge = s.prepare(fetch(generator_loss, train_generator), feed(z));
  for (int i = 1; i <= 500; ++i) {
    auto [judged, d] = judge(gallery::circle<64>(i), gallery::noise<64>(i));
    auto [forged, f] = forge(gallery::noise<64>(i));
    if (i % 100 == 0) std::printf("step %d: discriminator %.6f, generator %.6f\n", i, judged, forged);
  }
  auto distance = mean(abs(sqrt(sum<1>(square(fake))) - 1.0f));
  std::printf("mean distance from the circle %.6f\n", s.eval(distance, with(z, gallery::noise<64>(1000))));
}
