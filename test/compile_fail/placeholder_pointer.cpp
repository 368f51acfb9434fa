// A pointer to the graph.
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph, \\?"name\\?"\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float>(&g, "x");
#else
  auto x = placeholder<float>(g, "x");
#endif
}
