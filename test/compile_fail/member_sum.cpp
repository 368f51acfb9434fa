// A member that other libraries have, of a node.
// error: no member named 'sum'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = x.sum();
#else
  auto y = sum(x);
#endif
}
