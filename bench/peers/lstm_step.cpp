// SPDX-License-Identifier: BSL-1.0
// Times one step of an LSTM from 64 to 64 units in RTNeural (compile-time model, Eigen), as bench/loops.cpp times
// Weft's. One thread. Prints one JSON object: median and minimum of a step.
//
// build: g++ -O3 -march=native -std=c++20 -DNDEBUG -IRTNEURAL -isystem /usr/include/eigen3 lstm_step.cpp -o lstm_step
// run: ./lstm_step [seconds]
#define EIGEN_STACK_ALLOCATION_LIMIT 0  // the combined weights have 132,096 bytes, Eigen's limit is 131,072
#define RTNEURAL_USE_EIGEN 1
#define RTNEURAL_DEFAULT_ALIGNMENT 32
#include <RTNeural/RTNeural.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

int main(int argc, char** argv) {
  constexpr int units = 64;
  static RTNeural::ModelT<float, units, units, RTNeural::LSTMLayerT<float, units, units>> model;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> weight(-1.f / 8, 1.f / 8), number(-1, 1);
  std::vector<std::vector<float>> w(units, std::vector<float>(4 * units)), u = w;
  for (auto* m : {&w, &u})
    for (auto& row : *m) std::generate(row.begin(), row.end(), [&] { return weight(random); });
  std::vector<float> bias(4 * units);
  std::generate(bias.begin(), bias.end(), [&] { return weight(random); });
  auto& lstm = model.get<0>();
  lstm.setWVals(w), lstm.setUVals(u), lstm.setBVals(bias);
  model.reset();

  alignas(64) float x[units];
  std::generate(x, x + units, [&] { return number(random); });
  using clock = std::chrono::steady_clock;
  const std::chrono::duration<double> window(argc > 1 ? std::atof(argv[1]) : 1);
  std::vector<double> ms;
  for (const auto end = clock::now() + window; clock::now() < end;) {
    const auto begin = clock::now();
    for (int i = 0; i < 100; ++i) {
      model.forward(x);
      asm volatile("" ::: "memory");
    }
    ms.push_back(std::chrono::duration<double, std::milli>(clock::now() - begin).count() / 100);
  }
  std::sort(ms.begin(), ms.end());
  const double median = ms[ms.size() / 2];
  std::printf(
      "{\"peer\": \"rtneural\", \"model\": \"lstm_step\", \"mode\": \"infer\", \"batch\": 1, \"threads\": 1, "
      "\"ms_median\": %.5f, \"ms_min\": %.5f, \"items_per_s\": %.2f}\n",
      median, ms[0], 1e3 / median);
}
