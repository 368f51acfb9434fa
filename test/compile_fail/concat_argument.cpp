// As in Python: the axis is an argument.
// error: axis_is_not_a_template_argument
// error: concat<1>\(x, y\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = concat(x, x, 1);
#else
  auto z = concat<1>(x, x);
#endif
}
