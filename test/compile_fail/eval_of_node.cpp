// The free eval is given a node.
// error: value_needs_a_session
// error: dims<3>
// error: eval: a session computes a graph's values: session\.eval\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = variable<float, dims<3>>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto y = eval(x * 2);
#else
  auto y = s.eval(x * 2);
#endif
}
