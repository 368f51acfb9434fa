// Arithmetic in a storage type, more than once.
// error: operation_undefined_for
// error: half
// error: operator\*: needs extents that broadcast and numbers of one type:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<half, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = x * 2 + 1;
#else
  auto y = cast<half>(cast<float>(x) * 2 + 1);
#endif
}
