// A condition that is no condition.
// error: element_types_differ
// error: select: the condition
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> a;
#ifdef WEFT_SHOULD_FAIL
  auto b = select(a, a, 0);
#else
  auto b = select(a > 1, a, 0);
#endif
}
