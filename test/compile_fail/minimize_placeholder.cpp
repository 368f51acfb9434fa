// A placeholder is to be trained.
// error: trained_value_is_not_a_variable
// error: minimize: the loss must be a float or double scalar in a graph
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto x = placeholder<float>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto train = gradient_descent{}.minimize(w * x, x);
#else
  auto train = gradient_descent{}.minimize(w * x, w);
#endif
}
