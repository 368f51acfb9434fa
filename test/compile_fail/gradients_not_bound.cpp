// A gradient's tuple as a node.
// error: operand_is_not_a_tensor
// error: operator\*: takes tensors, nodes and numbers: tensor<T, dims<\.\.\.>>\{\.\.\.\}, auto \[dw\] =
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  auto w = variable<float, dims<3, 2>>(g, "w");
  auto loss = mean(square(matmul(x, w)));
#ifdef WEFT_SHOULD_FAIL
  auto dw = gradients(loss, w);
  auto y = dw * 2;
#else
  auto [dw] = gradients(loss, w);
  auto y = dw * 2;
#endif
}
