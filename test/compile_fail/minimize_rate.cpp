// The rate is given to minimize.
// error: trained_value_is_not_a_variable
// error: <double, float>
// error: minimize: the loss must be a float or double scalar in a graph
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto train = gradient_descent{}.minimize(w * w, 0.1);
#else
  auto train = gradient_descent{0.1}.minimize(w * w);
#endif
}
