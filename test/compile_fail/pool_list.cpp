// A window in braces.
// error: window, stride, padding: max_pool2d<2>\(x\), max_pool2d<3, 2, padding::same>\(x\)
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
