// A function of real numbers is applied to integers.
// error: operation_undefined_for
// error: formula::exp
// error: int
// error: needs float or double: cast<float>\(x\)
// max-lines: 9
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<int, dims<3>> a;
#else
  tensor<float, dims<3>> a;
#endif
  auto c = exp(a);
}
