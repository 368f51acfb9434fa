// A window in braces.
// error: arguments_are_not_taken
// error: max_pool2d: window, stride and padding are template arguments: max_pool2d<3, 2>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto im = placeholder<float, dims<8, 28, 28, 1>>(g, "im");
#ifdef WEFT_SHOULD_FAIL
  auto y = max_pool2d(im, {2, 2});
#else
  auto y = max_pool2d<2>(im);
#endif
}
