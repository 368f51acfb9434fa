// A node is fetched by its name.
// error: fetched_value_not_in_a_graph
// error: fetch: nodes, expressions and effects are fetched
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto loss = variable<float>(g, "loss");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto y = s.run(fetch("loss"));
#else
  auto y = s.run(fetch(loss));
#endif
}
