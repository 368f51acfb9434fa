// A comparison with a text.
// error: operand_is_not_a_tensor
// error: operator==: takes tensors, nodes and numbers: tensor<T, dims<\.\.\.>>\{\.\.\.\}, auto \[dw\] =
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = x == "1";
#else
  auto y = x == 1;
#endif
}
