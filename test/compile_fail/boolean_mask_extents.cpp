// A mask of other rows.
// error: mask_does_not_fit
// error: dims<3>
// error: dims<4, 3>
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  tensor<bool, dims<3>> mask;
  auto y = boolean_mask(x, mask);
#else
  tensor<bool, dims<4>> mask;
  auto y = boolean_mask(x, mask);
#endif
}
