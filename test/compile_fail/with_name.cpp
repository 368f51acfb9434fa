// with is given a name.
// error: fed_to_non_node
// error: with: the node comes before its value: with\(x, value\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto y = s.eval(x * 2, with("x", 1.0f));
#else
  auto y = s.eval(x * 2, with(x, 1.0f));
#endif
}
