// A node is declared first and assigned later.
// error: deleted
// error: A node is made of an expression: auto y = x \* 2;
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  node<float, dims<3>> h;
  h = x * 2;
#else
  node<float, dims<3>> h = x * 2;
#endif
}
