// reuse as a bool.
// error: reuse_is_a_bool
// error: variable_scope: write variable_scope scope\(graph, \\?"name\\?", reuse::yes\), or
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  variable_scope a(g, "layer", true);
#else
  variable_scope a(g, "layer", reuse::yes);
#endif
}
