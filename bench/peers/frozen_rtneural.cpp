// SPDX-License-Identifier: BSL-1.0
// Times RTNeural (compile-time models, Eigen) on the models of `bench_serving --frozen` that it supports: one call on
// one thread. It approximates tanh and the logistic function. Prints one JSON object for each model.
//
// build: g++ -O3 -march=native -std=c++20 -DNDEBUG -IRTNEURAL -isystem /usr/include/eigen3 frozen_rtneural.cpp
#define EIGEN_STACK_ALLOCATION_LIMIT 0
#define RTNEURAL_USE_EIGEN 1
#define RTNEURAL_DEFAULT_ALIGNMENT 32
#include <RTNeural/RTNeural.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

std::vector<std::vector<float>> weights(int rows, int columns) {
  static std::mt19937 random(1);
  std::uniform_real_distribution<float> weight(-1.f / 8, 1.f / 8);
  std::vector<std::vector<float>> w(rows, std::vector<float>(columns));
  for (auto& row : w) std::generate(row.begin(), row.end(), [&] { return weight(random); });
  return w;
}

template <class Model>
void measure(const char* name, Model& model, const float* x) {
  using clock = std::chrono::steady_clock;
  std::vector<double> us;
  for (int round = 0; round < 300; ++round) {
    const auto begin = clock::now();
    for (int i = 0; i < 100; ++i) {
      model.forward(x);
      asm volatile("" ::: "memory");
    }
    us.push_back(std::chrono::duration<double, std::micro>(clock::now() - begin).count() / 100);
  }
  std::sort(us.begin(), us.end());
  std::printf(
      "{\"peer\": \"rtneural\", \"model\": \"%s\", \"mode\": \"frozen\", \"us_median\": %.3f, \"us_min\": %.3f}\n",
      name, us[150], us[0]);
}

int main() {
  using namespace RTNeural;
  static ModelT<float, 784, 10, DenseT<float, 784, 100>, ReLuActivationT<float, 100>, DenseT<float, 100, 10>,
                SoftmaxActivationT<float, 10>>
      mlp;
  mlp.get<0>().setWeights(weights(100, 784)), mlp.get<2>().setWeights(weights(10, 100));
  static ModelT<float, 1, 1, GRULayerT<float, 1, 32>, DenseT<float, 32, 1>> gru;
  gru.get<0>().setWVals(weights(1, 96)), gru.get<0>().setUVals(weights(32, 96)), gru.get<0>().setBVals(weights(2, 96));
  gru.get<1>().setWeights(weights(1, 32));
  gru.reset();
  alignas(64) static float image[784], frame[16] = {0.5f};
  for (int i = 0; i < 784; ++i) image[i] = static_cast<float>(i % 17) * 0.05f;
  measure("784-100-10", mlp, image);
  measure("GRU 32", gru, frame);
}
