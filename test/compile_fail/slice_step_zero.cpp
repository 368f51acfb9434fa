// A slice without a step.
// error: step_is_zero<0>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = slice<1, 3, 1, 0>(x);
#else
  auto z = slice<1, 3, 1, -1>(x);
#endif
}
