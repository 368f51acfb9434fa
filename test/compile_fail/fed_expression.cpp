// A value is to be fed in place of an expression.
// error: fed_to_non_node
// error: feed: it lists placeholders, or other nodes
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = exp(x);
#else
  auto y = let(exp(x));
#endif
  auto fed = feed(y);
}
