// A function of the standard library is given a node.
// error: value_needs_a_session
// error: dims<3>
// error: a node has no value yet: session\.eval\(x\) computes it; cast<T>\(x\)
#include <cmath>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = std::exp(x);
#else
  auto y = exp(x);
#endif
}
