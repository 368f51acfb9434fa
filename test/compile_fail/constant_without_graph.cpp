// A constant without its graph.
// error: arguments_are_not_graph_and_tensor
// error: <float>
// error: constant: write constant\(graph, 0\.5f\) or constant\(graph, tensor<float
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto c = constant(1.0f);
#else
  auto c = constant(g, 1.0f);
#endif
}
