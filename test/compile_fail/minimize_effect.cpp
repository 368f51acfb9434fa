// An effect that trains is minimised.
// error: minimized_value_is_not_a_node
// error: minimize: the loss must be a float or double scalar in a graph
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = gradient_descent{}.minimize(w * w);
#ifdef WEFT_SHOULD_FAIL
  auto again = gradient_descent{}.minimize(train);
#else
  auto again = gradient_descent{}.minimize(w * w);
#endif
}
