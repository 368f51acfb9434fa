// A device in place of session options.
// error: session: it is made of a graph and options: session s\{g, \{\.threads = 4\}\}
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  session s(g, cpu{0});
#else
  session s(g, {.device = cpu{0}});
#endif
}
