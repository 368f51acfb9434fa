// with is given the value before the node.
// error: fed_to_non_node
// error: dims<3>
// error: with: the node comes before its value: with\(x, value\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  tensor<float, dims<3>> value;
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto y = s.eval(sum(x), with(value, x));
#else
  auto y = s.eval(sum(x), with(x, value));
#endif
}
