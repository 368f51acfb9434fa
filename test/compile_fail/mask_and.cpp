// Conditions are joined by &.
// error: operator_not_defined
// error: dims<2, 3>
// error: operator&: conditions are joined by &&: x > 0 && x < 1
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = (x > 0) & (x < 1);
#else
  auto y = (x > 0) && (x < 1);
#endif
}
