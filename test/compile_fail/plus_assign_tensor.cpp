// A tensor is written by +=.
// error: operator_not_defined
// error: dims<2, 3>
// error: operator\+=: write y = y \+ x; assign_add writes a variable, in a step
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  x += 1;
#else
  x = x + 1;
#endif
}
