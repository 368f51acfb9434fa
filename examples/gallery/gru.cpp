// SPDX-License-Identifier: BSL-1.0
// A gated recurrent unit (Cho et al. 2014) reads sequences of different lengths and learns to tell their mean.
#include <cstdio>
#include <weft/checkpoint/weights.hpp>
#include <weft/control_flow.hpp>
#include <weft/train/adamw.hpp>
#include <weft/weft.hpp>
#include "data.hpp"
using namespace weft;

// The sequences of a batch are padded to the longest.
using sequences = dims<dyn<"steps">, dyn<"batch">, 1>;
using per_sequence = dims<dyn<"batch">>;
using state = dims<dyn<"batch">, 8>;

/// Returns the state after the last step of each sequence.
node<float, state> gru(const node<float, sequences>& x, const node<std::int32_t, per_sequence>& lengths) {
  graph& g = graph_of(x);
  const variable_scope layer(g, "gru");
  auto w = variable<float, dims<1, 24>>(g, "w", init::glorot_uniform{});
  auto u = variable<float, dims<8, 24>>(g, "u", init::glorot_uniform{});
  auto b = variable<float, dims<24>>(g, "b", init::zeros{}), c = variable<float, dims<24>>(g, "c", init::zeros{});
  auto steps = expand_dims<1>(range<std::int32_t, dyn<"steps">>(g));
  auto is_valid = expand_dims<2>(steps < lengths);  // [steps, batch, 1]
  return scan(
      [](auto h, auto from_x, auto valid, auto u, auto c) {
        auto [x_reset, x_update, x_new] = split<1, 3>(from_x);
        auto [h_reset, h_update, h_new] = split<1, 3>(let(matmul(h, u) + c));
        auto update = sigmoid(x_update + h_update);
        auto proposed = tanh(x_new + sigmoid(x_reset + h_reset) * h_new);
        return select(valid, update * h + (1.0f - update) * proposed, h);  // past its end a sequence keeps its state
      },
      zeros<float, state>(g), rows(matmul(x, w) + b), rows(is_valid), invariant(u), invariant(c));
}

int main(int argc, char** argv) {
  graph g;
  auto x = placeholder<float, sequences>(g, "x");
  auto lengths = placeholder<std::int32_t, per_sequence>(g, "lengths");
  auto means = placeholder<float, per_sequence>(g, "means");
  auto weights = variable<float, dims<8, 1>>(g, "out/weights", init::glorot_uniform{});
  auto bias = variable<float, dims<1>>(g, "out/bias", init::zeros{});
  auto predicted = squeeze<1>(matmul(gru(x, lengths), weights) + bias);
  auto loss = mean(square(predicted - means));
  auto train = adamw{.learning_rate = 0.01}.minimize(loss);

  session s{g};
  if (argc > 1) load_weights(argv[1], s);  // else the variables begin with random values
  auto step = s.prepare(fetch(loss, train), feed(x, lengths, means));
  for (int i = 1; i <= 200; ++i) {
    const gallery::waves batch(i);
    auto [cost, trained] = step(batch.x, batch.lengths, batch.means);
    if (i % 40 == 0) std::printf("step %d: loss %.6f\n", i, cost);
  }
  const gallery::waves tests(1000);
  std::printf("test: loss %.6f\n",
              s.eval(loss, with(x, tests.x), with(lengths, tests.lengths), with(means, tests.means)));
}
