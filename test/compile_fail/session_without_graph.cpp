// A session without a graph.
// error: deleted
// error: A session runs a graph: session s\{g\};
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  session s;
#else
  session s{g};
#endif
}
