// Dropout of a tensor, which has no steps.
// error: value_not_in_a_graph
// error: value of a graph
#include <weft/ops/dropout.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  tensor<float, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = dropout(x, 0.2);
#else
  auto y = dropout(constant(g, x), 0.2);
#endif
}
