// argmax without an axis.
// error: axis_is_not_a_template_argument
// error: dims<2, 3>
// error: argmax: the axis is a template argument: argmax<1>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = argmax(x);
#else
  auto y = argmax<1>(x);
#endif
}
