// Axes in braces.
// error: axes are template arguments: sum<0, 1>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = sum(t, {0, 1});
#else
  auto y = sum<0, 1>(t);
#endif
}
