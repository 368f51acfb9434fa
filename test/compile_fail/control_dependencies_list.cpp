// Control dependencies in braces.
// error: \(graph, train, update\): effects and nodes, let\(x \+ 1\), one by one
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto a = variable<float>(g, "a");
  auto b = assign(a, 1.0f);
  auto c = assign(a, 2.0f);
#ifdef WEFT_SHOULD_FAIL
  control_dependencies after(g, {b, c});
#else
  control_dependencies after(g, b, c);
#endif
}
