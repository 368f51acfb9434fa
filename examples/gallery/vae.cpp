// SPDX-License-Identifier: BSL-1.0
// A variational autoencoder (Kingma and Welling 2014) of 8 x 8 pictures of a spot, with two latent numbers.
#include <cstdio>
#include <weft/checkpoint/weights.hpp>
#include <weft/graph/random.hpp>
#include <weft/train/adamw.hpp>
#include <weft/weft.hpp>
#include "data.hpp"
using namespace weft;

using pictures = dims<dyn<"batch">, 64>;
using latents = dims<dyn<"batch">, 2>;

template <int In, int Out, Expression X>
auto dense(const char* name, const X& x) {
  graph& g = graph_of(x);
  const variable_scope layer(g, name, reuse::automatic);
  auto w = variable<float, dims<In, Out>>(g, "w", init::glorot_uniform{});
  auto b = variable<float, dims<Out>>(g, "b", init::zeros{});
  return let(matmul(x, w) + b);
}

/// Means and logarithms of the variances of the latent numbers.
auto encode(const node<float, pictures>& x) {
  return split<1, 2>(dense<32, 4>("encoder/out", tanh(dense<64, 32>("encoder/hidden", x))));
}

/// The logits of the pixels.
auto decode(const node<float, latents>& z) {
  return dense<32, 64>("decoder/out", tanh(dense<2, 32>("decoder/hidden", z)));
}

int main(int argc, char** argv) {
  graph g;
  auto x = placeholder<float, pictures>(g, "x");
  auto noise = random_normal<float, latents>(g);
  auto [mu, log_variance] = encode(x);
  auto logits = decode(let(mu + exp(0.5f * log_variance) * noise));
  auto reconstruction = sum<1>(softplus(logits) - logits * x);  // the cross-entropy of the pixels
  auto divergence = 0.5f * sum<1>(square(mu) + exp(log_variance) - log_variance - 1.0f);
  auto loss = mean(reconstruction + divergence);
  auto train = adamw{.learning_rate = 0.005}.minimize(loss);

  session s{g};
  if (argc > 1) load_weights(argv[1], s);  // else the variables begin with random values
  // A node may be fed in place of what it computes: numbers by a formula here, so that every run prints the same.
  auto step = s.prepare(fetch(loss, mean(divergence), train), feed(x, noise));
  for (int i = 1; i <= 200; ++i) {
    auto [cost, kl, trained] = step(gallery::spots<32>(i), gallery::noise<32>(i));
    if (i % 40 == 0) std::printf("step %d: loss %.6f, divergence %.6f\n", i, cost, kl);
  }
  auto z = placeholder<float, latents>(g, "z");
  const auto picture = s.eval(sigmoid(decode(z)), with(z, zeros<float, dims<1, 2>>()));
  std::printf("the brightest pixel of the picture in the middle: %.6f\n", float(max(picture)));
}
