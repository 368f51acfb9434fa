// An activation of integers.
// error: operation_undefined_for
// max-lines: 9
// error: needs float or double: cast<float>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<std::int32_t, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = silu(x);
#else
  auto z = silu(cast<float>(x));
#endif
}
