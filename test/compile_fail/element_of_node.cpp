// An element of a node is read.
// error: variable_node<float, (weft::)?dims<3>
// error(g++): no match for call
// error(clang++): does not provide a call operator
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = variable<float, dims<3>>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  float y = x(0);
#else
  float y = s.eval(x)(0);
#endif
}
