// SPDX-License-Identifier: BSL-1.0
// A newcomer has no macro and no library after copying the headers. The reference kernels carry it, for training too.
#include <weft/weft.hpp>

using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  auto w1 = variable<float, dims<4, 8>>(g, "w1", init::glorot_uniform{});
  auto b1 = variable<float, dims<8>>(g, "b1", init::zeros{});
  auto w2 = variable<float, dims<8, 2>>(g, "w2", init::glorot_uniform{});
  auto loss = mean(softmax_cross_entropy(matmul(sigmoid(matmul(x, w1) + b1), w2), labels));
  auto train = gradient_descent{.learning_rate = 1}.minimize(loss);

  // The class is whether the first number is larger than the second.
  tensor<float, dims<dyn<"batch">, 4>> examples(shape(64, 4));
  tensor<std::int32_t, dims<dyn<"batch">>> classes(shape(64));
  const random_stream random(1, 1);
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 4; ++j)
      examples(i, j) = static_cast<float>(random.uniform(static_cast<std::uint64_t>(4 * i + j)));
    classes(i) = examples(i, 0) > examples(i, 1);
  }

  session s{g};
  auto step = s.prepare(fetch(loss, train), feed(x, labels));
  const float first = std::get<0>(step(examples, classes));
  float last = first;
  for (int i = 0; i < 500; ++i) last = std::get<0>(step(examples, classes));
  return last < 0.25f * first ? 0 : 1;
}
