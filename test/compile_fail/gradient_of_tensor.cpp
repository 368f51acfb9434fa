// A gradient of what is in no graph.
// error: value_not_in_a_graph
// error: dims<3>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  tensor<float, dims<3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto [dx] = gradients(t, x);
#else
  auto [dx] = gradients(x, x);
#endif
}
