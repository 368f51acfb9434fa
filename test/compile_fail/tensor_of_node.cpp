// A tensor is made of a node without a session.
// error: value_needs_a_session
// error: dims<3>
// error: tensor: the expression has other extents or elements, or needs a session:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = variable<float, dims<3>>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<3>> y = x * 2;
#else
  tensor<float, dims<3>> y = s.eval(x * 2);
#endif
}
