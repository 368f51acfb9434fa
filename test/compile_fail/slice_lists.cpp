// Begins and sizes in braces.
// error: an axis, a begin and a size: slice<1, 0, 3>\(x\); slice<1, 3>\(x, i\) begins at i
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = slice(x, {0, 0}, {1, 2});
#else
  auto y = slice<1, 0, 2>(x);
#endif
}
