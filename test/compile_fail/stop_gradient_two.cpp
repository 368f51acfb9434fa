// stop_gradient of two values.
// error: arguments_are_not_taken
// error: stop_gradient: takes one value
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = stop_gradient(x, x);
#else
  auto y = stop_gradient(x);
#endif
}
