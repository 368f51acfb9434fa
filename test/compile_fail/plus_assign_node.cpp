// A sum is made in a loop by +=.
// error: operator_not_defined
// error: dims<3>
// error: operator\+=: write y = y \+ x; assign_add writes a variable, in a step
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  node<float, dims<3>> y = x * 2;
#ifdef WEFT_SHOULD_FAIL
  y += x;
#else
  y = y + x;
#endif
}
