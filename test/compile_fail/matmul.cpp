// The inner extents of a matrix product differ.
// error: matmul_shapes_differ
// error: 784
// error: 100
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
#ifdef WEFT_SHOULD_FAIL
  auto weights = variable<float, dims<100, 10>>(g, "weights", init::zeros{});
#else
  auto weights = variable<float, dims<784, 10>>(g, "weights", init::zeros{});
#endif
  auto logits = matmul(images, weights);
}
