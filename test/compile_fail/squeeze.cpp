// A squeeze of an axis that has more than one element.
// error: squeezed_extent_is_not_one
// error: dims<2, 1, 3>
// error: squeeze: squeeze<axis>\(x\) names axes of extent 1; reshape changes others
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 1, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = squeeze<2>(x);
#else
  auto y = squeeze<1>(x);
#endif
}
