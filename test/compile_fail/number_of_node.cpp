// The value of a node without a session.
// error: value_needs_a_session
// error: a node has no value yet: session\.eval\(x\) computes it; cast<T>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto loss = variable<float>(g, "loss");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  float y = loss;
#else
  float y = s.eval(loss);
#endif
}
