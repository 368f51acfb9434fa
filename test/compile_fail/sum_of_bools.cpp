// Truth values are counted.
// error: reduction_undefined_for
// error: <bool>
// error: sum: needs axes of the operand and numbers: cast<float>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = sum(x > 0);
#else
  auto y = sum(cast<int>(x > 0));
#endif
}
