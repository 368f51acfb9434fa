// A variable made by the type of its handle.
// error: auto w = variable<float, dims<784, 10>>\(graph, "w"\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  variable_node w(g, "w");
#else
  auto w = variable<float>(g, "w");
#endif
}
