// A constant of values in braces.
// error: arguments_are_not_graph_and_tensor
// error: constant: write constant\(graph, tensor<float, dims<3>>\{1, 2, 3\}\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto c = constant(g, {1.0f, 2.0f});
#else
  auto c = constant(g, tensor<float, dims<2> >{1.0f, 2.0f});
#endif
}
