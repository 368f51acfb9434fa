// A value in a group.
// error: run_value_is_not_a_node
// error: group: takes effects and nodes: group\(train, let\(x \+ 1\)\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3, 2>>(g, "w");
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = group(x + 1);
#else
  auto y = group(assign(w, w * 2));
#endif
}
