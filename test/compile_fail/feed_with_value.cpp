// A placeholder is fed together with its value.
// error: fed_to_non_node
// error: <float>
// error: feed: it lists placeholders, or other nodes: let\(\) makes one
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto step = s.prepare(fetch(x * 2), feed(x, 1.0f));
#else
  auto step = s.prepare(fetch(x * 2), feed(x));
#endif
}
