// A scope without its graph.
// error: scope_has_no_graph
// error: name_scope: write name_scope scope\(graph, \\?"name\\?"\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  name_scope a("layer");
#else
  name_scope a(g, "layer");
#endif
}
