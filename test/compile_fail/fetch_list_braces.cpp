// Fetched nodes in braces.
// error: nodes, expressions and effects, one by one: fetch\(loss, train\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  auto y = placeholder<float, dims<4, 3>>(g, "y");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto step = s.prepare(fetch({x, y}), feed(x, y));
#else
  auto step = s.prepare(fetch(x, y), feed(x, y));
#endif
}
