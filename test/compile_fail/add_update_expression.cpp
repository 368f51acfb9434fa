// An update that is an expression.
// error: an effect or a node: add_update\(assign\(mean, x\)\), add_update\(let\(x \+ 1\)\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto a = variable<float>(g, "a");
#ifdef WEFT_SHOULD_FAIL
  add_update(a + 1.0f);
#else
  add_update(assign(a, a + 1.0f));
#endif
}
