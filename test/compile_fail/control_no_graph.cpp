// Control dependencies without a graph.
// error: \(graph, train, update\): effects and nodes, let\(x \+ 1\), one by one
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto a = variable<float>(g, "a");
#ifdef WEFT_SHOULD_FAIL
  control_dependencies after(a);
#else
  control_dependencies after(g, a);
#endif
}
