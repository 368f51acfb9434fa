// Classes of a tensor: it has no steps.
// error: value_not_in_a_graph
// error: categorical: takes logits of a graph, \[\.\.\., classes\], float, double, half or bfloat16
#include <weft/ops/categorical.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  tensor<float, dims<2, 3>> logits;
#ifdef WEFT_SHOULD_FAIL
  auto y = categorical(logits);
#else
  auto y = categorical(constant(g, logits));
#endif
}
