// A placeholder without its graph.
// error: arguments_are_not_graph_and_name
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph,
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<3>>("x");
#else
  auto x = placeholder<float, dims<3>>(g, "x");
#endif
}
