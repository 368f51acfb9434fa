// A number is assigned to a node.
// error: assigned_to_a_node
// error: <float>
// error: a node is a handle of its type: write `auto y = \.\.\.;`; assign\(variable
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  x = 0.5f;
#else
  auto y = s.eval(x, with(x, 0.5f));
#endif
}
