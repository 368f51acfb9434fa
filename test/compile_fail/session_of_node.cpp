// A session of a node.
// error: session_is_not_made_of
// error: dims<3>
// error: session: it is made of a graph and options: session s\{g, \{\.threads = 4\}\}
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  session s(x);
#else
  session s(g);
#endif
}
