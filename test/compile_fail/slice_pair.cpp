// Numpy's begin and end.
// error: an axis, a begin and a size: slice<1, 0, 3>\(x\); slice<1, 3>\(x, i\) begins at i
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = slice<1, 0>(t);
#else
  auto y = slice<1, 0, 2>(t);
#endif
}
