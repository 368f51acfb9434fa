// The squeezed axis as an argument.
// error: axes are template arguments: squeeze<0>\(x\), squeeze\(x\) for all of extent 1
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<1, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = squeeze(x, 0);
#else
  auto y = squeeze<0>(x);
#endif
}
