// The variables of minimize in braces.
// error: trained_value_is_not_a_variable
// error: minimize: the variables follow the loss, one by one: minimize\(loss, w, b\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto b = variable<float>(g, "b");
#ifdef WEFT_SHOULD_FAIL
  auto train = gradient_descent{}.minimize(w * b, {w, b});
#else
  auto train = gradient_descent{}.minimize(w * b, w, b);
#endif
}
