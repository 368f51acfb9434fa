// SPDX-License-Identifier: BSL-1.0
// Policy gradient (REINFORCE, Williams 1992): a controller that draws its actions learns to balance a pole on a cart.
#include <array>
#include <cstdio>
#include <vector>
#include <weft/ops/random/categorical.hpp>
#include <weft/weft.hpp>
#include "data.hpp"
using namespace weft;

/// The logits of the two actions.
template <Expression X>
auto policy(const X& state) {
  graph& g = graph_of(state);
  const variable_scope network(g, "policy", reuse::automatic);
  auto w1 = variable<float, dims<4, 32>>(g, "w1", init::he_normal{});
  auto b1 = variable<float, dims<32>>(g, "b1", init::zeros{});
  auto w2 = variable<float, dims<32, 2>>(g, "w2", init::glorot_uniform{});
  return let(matmul(relu(matmul(state, w1) + b1), w2));
}

int main() {
  graph g;
  auto state = placeholder<float, dims<1, 4>>(g, "state");
  auto action = categorical(policy(state));

  auto states = placeholder<float, dims<dyn<"steps">, 4>>(g, "states");
  auto actions = placeholder<std::int32_t, dims<dyn<"steps">>>(g, "actions");
  auto returns = placeholder<float, dims<dyn<"steps">>>(g, "returns");
  auto centred = returns - mean(returns);
  auto advantage = centred / sqrt(mean(square(centred)) + 1e-6f);
  auto loss = mean(advantage * softmax_cross_entropy(policy(states), actions));
  auto train = adam{.learning_rate = 0.01}.minimize(loss);

  session s{g, {.threads = 1}};
  auto act = s.prepare(fetch(action), feed(state));
  auto learn = s.prepare(fetch(train), feed(states, actions, returns));
  double average = 0;
  for (int episode = 1; episode <= 500; ++episode) {
    gallery::pole pole;
    std::vector<std::array<float, 4>> seen;
    std::vector<std::int32_t> taken;
    for (bool stands = true; stands && seen.size() < 300;) {
      seen.push_back(pole.state);
      taken.push_back(act(tensor<float, dims<1, 4>>(pole.state))(0));
      stands = pole.push(taken.back());
    }
    std::vector<float> gains(seen.size(), 1);  // the discounted rewards of all later steps: 1 for each
    for (std::size_t t = seen.size() - 1; t-- > 0;) gains[t] += 0.98f * gains[t + 1];
    learn(tensor<float, dims<dyn<"steps">, 4>>(seen), tensor<std::int32_t, dims<dyn<"steps">>>(taken),
          tensor<float, dims<dyn<"steps">>>(gains));
    average += 0.05 * (double(seen.size()) - average);
    if (episode % 100 == 0) std::printf("episode %d: stands for %.0f steps\n", episode, average);
  }
}
