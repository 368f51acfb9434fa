// A variable is written by +=.
// error: operator_not_defined
// error: dims<3>
// error: operator\+=: write y = y \+ x; assign_add writes a variable, in a step
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto w = variable<float, dims<3>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  w += 1;
#else
  auto update = assign_add(w, x);
#endif
}
