// A loss that is in no graph.
// error: value_not_in_a_graph
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = variable<float, dims<3>>(g, "x");
  tensor<float, dims<3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto train = gradient_descent{}.minimize(sum(t));
#else
  auto train = gradient_descent{}.minimize(sum(x));
#endif
}
