// A node is assigned to one of other extents.
// error: assigned_to_a_node
// error: dims<4, 2>
// error: a node is a handle of its type: write `auto y = \.\.\.;`; assign\(variable
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  auto w = variable<float, dims<3, 2>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  x = matmul(x, w);
#else
  auto y = matmul(x, w);
#endif
}
