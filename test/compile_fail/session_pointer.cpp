// A session of a pointer to a graph.
// error: session: it is made of a graph and options: session s\{g, \{\.threads = 4\}\}
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  session s(&g);
#else
  session s(g);
#endif
}
