// SPDX-License-Identifier: BSL-1.0
// Models and tensors whose every extent the compiler works out, layer after layer. nvcc takes seconds for this file;
// where results name their types by the ways in which they were found it takes ten times longer with every layer or
// two.
#include <weft/cuda.hpp>

using namespace weft;

template <int From, int To>
auto weights(graph& g) {
  return variable<float, dims<From, To>>(g, "weights/" + std::to_string(From), init::glorot_normal{});
}

effect dense(graph& g, const node<float, dims<dyn<"batch">, 10>>& x0) {
  auto x1 = relu(matmul(x0, weights<10, 11>(g)) + 1.0f);
  auto x2 = relu(matmul(x1, weights<11, 12>(g)) + 1.0f);
  auto x3 = relu(matmul(x2, weights<12, 13>(g)) + 1.0f);
  auto x4 = relu(matmul(x3, weights<13, 14>(g)) + 1.0f);
  auto x5 = relu(matmul(x4, weights<14, 15>(g)) + 1.0f);
  auto x6 = relu(matmul(x5, weights<15, 16>(g)) + 1.0f);
  auto x7 = relu(matmul(x6, weights<16, 17>(g)) + 1.0f);
  auto x8 = relu(matmul(x7, weights<17, 18>(g)) + 1.0f);
  return gradient_descent{.learning_rate = 0.1}.minimize(mean(square(x8)));
}

auto windows(graph& g, const node<float, dims<dyn<"batch">, 32, 32, 2>>& x0) {
  auto filters = variable<float, dims<3, 3, 2, 2>>(g, "filters", init::he_normal{});
  auto x1 = max_pool2d<2>(relu(conv2d(x0, filters) + 1.0f));
  auto x2 = max_pool2d<2>(relu(conv2d(x1, filters) + 1.0f));
  auto x3 = max_pool2d<2>(relu(conv2d(x2, filters) + 1.0f));
  auto x4 = mean<1, 2>(relu(conv2d(x3, filters) + 1.0f));
  return reshape<dims<2, dyn<"batch">>>(transpose<1, 0>(x4));
}

auto evaluated(const tensor<float, dims<4, 10>>& x0) {
  auto x1 = relu(matmul(x0, tensor<float, dims<10, 11>>()) + 1.0f);
  auto x2 = relu(matmul(x1, tensor<float, dims<11, 12>>()) + 1.0f);
  auto x3 = relu(matmul(x2, tensor<float, dims<12, 13>>()) + 1.0f);
  auto x4 = relu(matmul(x3, tensor<float, dims<13, 14>>()) + 1.0f);
  auto x5 = relu(matmul(x4, tensor<float, dims<14, 15>>()) + 1.0f);
  auto x6 = relu(matmul(x5, tensor<float, dims<15, 16>>()) + 1.0f);
  auto x7 = relu(matmul(x6, tensor<float, dims<16, 17>>()) + 1.0f);
  auto x8 = relu(matmul(x7, tensor<float, dims<17, 18>>()) + 1.0f);
  return mean<0>(x8);
}
