// An array is added.
// error: operand_is_not_a_tensor
// error: operator\+: takes tensors, nodes and numbers: tensor<T, dims<\.\.\.>>\{\.\.\.\}, auto \[dw\] =
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  float v[] = {1, 2, 3};
  auto y = t + v;
#else
  auto y = t + tensor<float, dims<3>>{1, 2, 3};
#endif
}
