// A power by ^.
// error: operator_not_defined
// error: dims<2, 3>
// error: operator\^: a power is pow\(x, y\), square\(x\) or x \* x
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = x ^ 2;
#else
  auto y = pow(x, 2);
#endif
}
