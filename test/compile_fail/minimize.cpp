// A loss that is not one number.
// error: minimized_value_is_not_scalar
// error: dims<10>|10
// error: the loss must be a float or double scalar in a graph, use mean\(\) or sum\(\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<10>>(g, "w", init::ones{});
#ifdef WEFT_SHOULD_FAIL
  auto train = gradient_descent{}.minimize(w * w);
#else
  auto train = gradient_descent{}.minimize(sum(w * w));
#endif
}
