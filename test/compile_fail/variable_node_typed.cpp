// A variable made by the type of its handle, with its extents.
// error: auto w = variable<float, dims<784, 10>>\(graph, "w"\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  variable_node<float, dims<3>> w(g, "w");
#else
  auto w = variable<float, dims<3>>(g, "w");
#endif
}
