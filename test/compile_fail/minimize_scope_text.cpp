// The variables of a scope are named by the scope alone.
// error: trained_value_is_not_a_variable
// error: variables_in\(graph, \\?"scope\\?"\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "generator/w", init::ones{});
  auto loss = w * w;
#ifdef WEFT_SHOULD_FAIL
  auto train = adam{}.minimize(loss, "generator");
#else
  auto train = adam{}.minimize(loss, variables_in(g, "generator"));
#endif
}
