// A mask left out.
// error: arguments_are_not_taken
// error: boolean_mask: takes a value and a mask: boolean_mask\(x, x > 0\)
#include <weft/ops/boolean_mask.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = boolean_mask(t);
#else
  auto y = boolean_mask(t, t > 0);
#endif
}
