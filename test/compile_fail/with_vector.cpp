// with is given a std::vector.
// error: fed_value_is_not_a_tensor
// error: std::vector<float
// error: with: the value is not a tensor
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  session s{g};
  std::vector<float> values(3);
#ifdef WEFT_SHOULD_FAIL
  auto y = s.eval(x * 2, with(x, values));
#else
  auto y = s.eval(x * 2, with(x, tensor_view<float, dims<3>>(values.data())));
#endif
}
