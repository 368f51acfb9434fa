// Threads as an argument of a session.
// error: session_is_not_made_of
// error: session: it is made of a graph and options: session s\{g, \{\.threads = 4\}\}
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  session s(g, 4);
#else
  session s(g, {.threads = 4});
#endif
}
