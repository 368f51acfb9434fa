// As in NumPy: the axis is an argument.
// error: axis_is_not_a_template_argument
// error: reverse<0>\(x\)
#include <weft/ops/reverse.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = reverse(x, 0);
#else
  auto z = reverse<0>(x);
#endif
}
