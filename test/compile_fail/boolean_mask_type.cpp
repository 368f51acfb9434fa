// A mask of numbers.
// error: mask_is_not_bool
// error: float
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
  tensor<float, dims<4>> weights;
#ifdef WEFT_SHOULD_FAIL
  auto y = boolean_mask(x, weights);
#else
  auto y = boolean_mask(x, weights > 0.0f);
#endif
}
