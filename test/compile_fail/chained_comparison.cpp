// A comparison of three operands.
// error: operation_undefined_for
// error: formula::less, bool
// error: operator<: needs extents that broadcast and numbers of one type:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = 0 < x < 1;
#else
  auto y = 0 < x && x < 1;
#endif
}
