// find_variable without a type.
// error: types_are_not_element_and_dims
// error: find_variable: write find_variable<float, dims<784, 10>>\(graph, \\?"name\\?"\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3, 2>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto v = find_variable(g, "w");
#else
  auto v = find_variable<float, dims<3, 2>>(g, "w");
#endif
}
