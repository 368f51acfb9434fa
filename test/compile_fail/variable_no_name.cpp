// A variable without a name.
// error: arguments_are_not_graph_and_name
// error: variable: write variable<float, dims<784, 10>>\(graph, \\?"name\\?", init::normal\{\.stddev =
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto w = variable<float, dims<3>>(g);
#else
  auto w = variable<float, dims<3>>(g, "w");
#endif
}
