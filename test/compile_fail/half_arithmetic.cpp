// Arithmetic in a storage type.
// error: operation_undefined_for
// error: half
// error: needs numbers, not bool, half or bfloat16: cast<float>\(x\)
// max-lines: 9
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<half, dims<3>> a;
#ifdef WEFT_SHOULD_FAIL
  auto b = relu(a);
#else
  auto b = relu(cast<float>(a));
#endif
}
