// A condition is multiplied.
// error: element_types_differ
// error: <bool, float>
// error: operator\*: needs extents that broadcast and numbers of one type:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = (x > 0) * x;
#else
  auto y = select(x > 0, x, 0);
#endif
}
