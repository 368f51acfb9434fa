// SPDX-License-Identifier: BSL-1.0
// A trained classifier answers requests from several threads, which share one copy of the weights.
#include <cstdio>
#include <thread>
#include <vector>
#include <weft/checkpoint/weights.hpp>
#include <weft/weft.hpp>
#include "data.hpp"
using namespace weft;

using request = tensor<float, dims<1, 16>>;
using answer = tensor<float, dims<1, 4>>;

struct classifier {
  graph g;
  node<float, dims<1, 16>> input;
  node<float, dims<1, 4>> probabilities;
  session s;

  classifier() : s(make()) {}

 private:
  session make() {
    input = placeholder<float, dims<1, 16>>(g, "input");
    auto w1 = variable<float, dims<16, 32>>(g, "hidden/weights", init::he_normal{});
    auto b1 = variable<float, dims<32>>(g, "hidden/bias", init::zeros{});
    auto w2 = variable<float, dims<32, 4>>(g, "out/weights", init::glorot_uniform{});
    auto b2 = variable<float, dims<4>>(g, "out/bias", init::zeros{});
    probabilities = softmax(matmul(relu(matmul(input, w1) + b1), w2) + b2);
    return session(g, {.threads = 1});
  }
};

int main(int argc, char** argv) {
  classifier model;
  if (argc > 1) load_weights(argv[1], model.s);

  constexpr int threads = 4, requests = 1000;
  std::vector<answer> answers(requests);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([&, t, clone = model.s.clone_for_inference()]() mutable {
      step<answer(request)> infer = clone.prepare(fetch(model.probabilities), feed(model.input));
      for (int n = t; n < requests; n += threads) answers[n] = infer(gallery::request(n));
    });
  for (std::thread& t : pool) t.join();

  int counts[4] = {};
  for (const answer& a : answers) ++counts[argmax<1>(a)(0)];
  std::printf("classes: %d %d %d %d\n", counts[0], counts[1], counts[2], counts[3]);
  for (int n : {0, 1, 10, 999})
    std::printf("request %d: %.6f %.6f %.6f %.6f\n", n, answers[n](0, 0), answers[n](0, 1), answers[n](0, 2),
                answers[n](0, 3));
}
