// Axes of a transpose as arguments.
// error: axis_is_not_a_template_argument
// error: dims<2, 3>
// error: transpose: axes are template arguments: transpose<1, 0>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = transpose(x, 1, 0);
#else
  auto y = transpose<1, 0>(x);
#endif
}
