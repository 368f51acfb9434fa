// SPDX-License-Identifier: BSL-1.0
#include <weft/weft.hpp>
using namespace weft;

void stop_here(const void*) {}

int main() {
  tensor<float, dims<2, 3>> matrix{1, 2, 3, 4, 5, 6.5f};
  tensor<std::int64_t> number = 7;
  tensor<half, dims<2>> halves{half(0.5f), half(-2)};
  tensor<bfloat16, dims<1>> brains{bfloat16(1.5f)};
  tensor<bool, dims<dyn<"n">>> flags(shape(2), {true, false});
  tensor_view<const float, dims<2, 3>> view(matrix);
  shape extents(3, 784);
  shape none;
  dims<dyn<"batch">, 10> batches;
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  auto weights = variable<float, dims<784, 10>>(g, "weights", init::zeros{});
  auto logits = let(matmul(images, weights), "logits");
  auto train = gradient_descent{}.minimize(mean(logits));
  node<float, dims<3>> unset, ended;
  {
    graph other;
    ended = variable<float, dims<3>>(other, "w", init::zeros{});
  }
  symbol erased = logits.erased();
  stop_here(&matrix), stop_here(&number), stop_here(&halves), stop_here(&brains), stop_here(&flags), stop_here(&view);
  stop_here(&extents), stop_here(&none), stop_here(&batches), stop_here(&train), stop_here(&unset), stop_here(&ended),
      stop_here(&erased);
  return 0;  // here
}
