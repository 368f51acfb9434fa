// A std::vector is added.
// error: operand_is_not_a_tensor
// error: operator\+: takes tensors, nodes and numbers: tensor<T, dims<\.\.\.>>\{\.\.\.\}, auto \[dw\] =
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  std::vector<float> v{1, 2, 3};
  auto y = x + v;
#else
  auto y = x + tensor<float, dims<3>>{1, 2, 3};
#endif
}
