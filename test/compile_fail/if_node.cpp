// A node is asked for its value while the graph is made.
// error: value_needs_a_session
// error: not a number: session\.eval\(x\) computes a graph's value; sum\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto loss = variable<float>(g, "loss");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  if (loss < 0.5f) return 1;
#else
  if (s.eval(loss < 0.5f)) return 1;
#endif
}
