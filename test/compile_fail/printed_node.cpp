// A node is printed.
// error: value_needs_a_session
// error: dims<5>
// error: a node has no value yet: session\.eval\(x\) computes it; cast<T>\(x\)
#include <iostream>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto losses = variable<float, dims<5>>(g, "losses");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  std::cout << losses;
#else
  std::cout << s.eval(losses)(0);
#endif
}
