// Window and stride as arguments.
// error: max_pool2d: window, stride and padding are template arguments: max_pool2d<2>\(x\), max_pool2d<3,
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = max_pool2d(x, 2, 2);
#else
  auto y = max_pool2d<2>(x);
#endif
}
