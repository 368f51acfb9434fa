// A bool that says whether a variable is trained.
// error: variable: write variable<float, dims<784, 10>>\(graph, \\?"name\\?", init::normal\{\.stddev = 0\.1\}\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto w = variable<float, dims<3>>(g, "w", 0, false);
#else
  auto w = variable<float, dims<3>>(g, "w", 0, variable_kind::frozen);
#endif
}
