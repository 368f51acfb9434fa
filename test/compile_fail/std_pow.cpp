// A power by std::pow.
// error: value_is_not_one_number
// error: dims<2, 3>
// error: not one number, as x\(i, \.\.\.\), sum\(x\), mean\(x\) are: cast<T>\(x\)
#include <cmath>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = std::pow(x, 2);
#else
  auto y = pow(x, 2);
#endif
}
