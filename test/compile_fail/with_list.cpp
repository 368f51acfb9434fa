// with is given values in braces.
// error: fed_value_is_not_a_tensor
// error: with: values in braces are fed as a tensor: with\(x, tensor<T
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto y = s.eval(x * 2, with(x, {1, 2, 3}));
#else
  auto y = s.eval(x * 2, with(x, tensor<float, dims<3>>{1, 2, 3}));
#endif
}
