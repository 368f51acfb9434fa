// A vector of tensors.
// error: operand_is_not_a_tensor
// error: concat: takes values one by one, the axis is a template argument: concat<1>\(x, y\)
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  std::vector<decltype(t)> all{t, t};
  auto y = concat<1>(all);
#else
  auto y = concat<1>(t, t);
#endif
}
