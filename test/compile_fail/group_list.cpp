// Effects in braces.
// error: run_value_is_not_a_node
// error: group: takes effects and nodes, one by one: group\(train, update\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3, 2>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto y = group({assign(w, w * 2)});
#else
  auto y = group(assign(w, w * 2));
#endif
}
