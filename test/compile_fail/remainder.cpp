// A remainder by %.
// error: operator_not_defined
// error: dims<3>
// error: operator%: of integers the remainder is x - x / y \* y
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<int, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = x % 2;
#else
  auto y = x - x / 2 * 2;
#endif
}
