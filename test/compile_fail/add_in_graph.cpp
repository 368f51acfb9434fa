// The same of two nodes, one of them an expression with a dynamic extent.
// error: elementwise_shapes_differ
// error: operator\*
// error(g++): "batch"
// error: 10.*20|20.*10
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 10>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto w = variable<float, dims<20>>(g, "w");
#else
  auto w = variable<float, dims<10>>(g, "w");
#endif
  auto y = exp(x) * (w + 1);
}
