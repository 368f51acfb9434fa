// The window of a pool as an argument.
// error: option_is_not_a_template_argument
// error: dims<1, 4, 4, 1>
// error: max_pool2d: window, stride and padding are template arguments:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<1, 4, 4, 1>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = max_pool2d(x, 2);
#else
  auto y = max_pool2d<2>(x);
#endif
}
