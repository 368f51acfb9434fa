// A variable of another type is to be trained.
// error: trained_value_is_not_a_variable
// error: minimize: the loss must be a float or double scalar in a graph
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<double>(g, "w");
  auto loss = cast<float>(w * w);
#ifdef WEFT_SHOULD_FAIL
  auto train = gradient_descent{}.minimize(loss, w);
#else
  auto train = gradient_descent{}.minimize(cast<double>(loss), w);
#endif
}
