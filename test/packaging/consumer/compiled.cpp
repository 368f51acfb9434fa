// SPDX-License-Identifier: BSL-1.0
#include <weft/weft.hpp>

double least(double start);

int main() {
  using namespace weft;
  // A training step by the kernels of weft::compiled.
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 4>>(g, "images");
  auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  auto weights = variable<float, dims<4, 3>>(g, "weights", init::glorot_normal{});
  auto loss = mean(softmax_cross_entropy(matmul(images, weights), labels));
  auto train = momentum{.learning_rate = 0.5}.minimize(loss);
  session s{g};
  auto step = s.prepare(fetch(loss, train), feed(images, labels));
  tensor<float, dims<dyn<"batch">, 4>> x(shape(3, 4));
  tensor<std::int32_t, dims<dyn<"batch">>> y(shape(3));
  for (int i = 0; i < 3; ++i) {
    x.data()[5 * i] = 1;
    y.data()[i] = i;
  }
  float cost = 1;
  for (int i = 0; i < 100; ++i) cost = std::get<0>(step(x, y));
  if (!(cost < 0.05f)) return 1;

  const double at = least(10);
  if (!(at > 2.999 && at < 3.001)) return 1;

  // An error that is thrown in one half is caught in the other.
  try {
    tensor<std::int32_t, dims<dyn<"batch">>> other(shape(2));
    step(x, other);
  } catch (const error& e) {
    return e.code() == error_code::invalid_argument ? 0 : 1;
  }
  return 1;
}
