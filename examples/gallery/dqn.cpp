// SPDX-License-Identifier: BSL-1.0
// Deep Q-learning (Mnih et al. 2015): a controller learns to push a cart to the middle of a rail and keep it there.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <weft/checkpoint/weights.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/weft.hpp>
#include "data.hpp"
using namespace weft;

/// The expected return of each of the three actions, [n, 3].
template <Expression X>
auto q_values(const char* name, const X& state) {
  graph& g = graph_of(state);
  const variable_scope network(g, name, reuse::automatic);
  auto w1 = variable<float, dims<2, 32>>(g, "w1", init::he_normal{});
  auto b1 = variable<float, dims<32>>(g, "b1", init::zeros{});
  auto w2 = variable<float, dims<32, 3>>(g, "w2", init::glorot_uniform{});
  auto b2 = variable<float, dims<3>>(g, "b2", init::zeros{});
  return let(matmul(relu(matmul(state, w1) + b1), w2) + b2);
}

int main(int argc, char** argv) {
  graph g;
  auto now = placeholder<float, dims<1, 2>>(g, "now");
  auto state = placeholder<float, dims<32, 2>>(g, "state"), next = placeholder<float, dims<32, 2>>(g, "next");
  auto action = placeholder<std::int32_t, dims<32>>(g, "action");
  auto reward = placeholder<float, dims<32>>(g, "reward");
  auto wanted = stop_gradient(reward + 0.9f * max<1>(q_values("target", next)));
  auto loss = mean(square(wanted - batch_gather<1>(q_values("online", state), action)));
  auto learn = adam{.learning_rate = 0.005}.minimize(loss, variables_in(g, "online"));

  session s{g, {.threads = 1}};
  if (argc > 1) load_weights(argv[1], s);  // else the variables begin with random values
  auto train = s.prepare(fetch(loss, learn), feed(state, action, reward, next));
  auto renew_target = s.prepare(fetch(assign_all(variables_in(g, "target"), variables_in(g, "online"))));
  auto decide = s.prepare(fetch(argmax<1>(q_values("online", now))), feed(now));

  tensor<float, dims<600, 2>> states, next_states;  // the replay memory
  tensor<std::int32_t, dims<600>> actions;
  tensor<float, dims<600>> rewards;
  gallery::cart cart{};
  for (int t = 0; t < 600; ++t) {
    if (t % 40 == 0) cart = {std::cos(2.5 * (t / 40))};
    if (t % 50 == 0) renew_target();
    states[t] = cart.state()[0];
    actions[t] = t % 4 == 0 ? t / 4 % 3 : decide(cart.state())(0);  // explores in every fourth step
    cart.push(actions[t]);
    next_states[t] = cart.state()[0];
    rewards[t] = -float(std::abs(cart.place));
    tensor<std::int32_t, dims<32>> i;
    for (int n = 0; n < 32; ++n) i[n] = (7919 * t + 31 * n * n) % (t + 1);
    auto [error, trained] = train(gather(states, i), gather(actions, i), gather(rewards, i), gather(next_states, i));
    if (t % 100 == 99) std::printf("step %d: loss %.6f\n", t + 1, error);
  }
  cart = {1};
  for (int t = 0; t < 40; ++t) cart.push(decide(cart.state())(0));
  std::printf("from 1 to %.6f in 40 steps\n", cart.place);
  const auto start = std::chrono::steady_clock::now();
  for (int t = 0; t < 100'000; ++t) cart.push(decide(cart.state())(0));
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  std::printf("%.2f us per decision\n", took.count() / 100'000);
}
