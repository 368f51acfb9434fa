// A checkpoint that need not be there.
// error: keeper\.restore\(session, \*latest_checkpoint\("folder"\), \{\.partial = true\}\)
#include <weft/checkpoint/saver.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  session s(g);
  saver keeper;
#ifdef WEFT_SHOULD_FAIL
  keeper.restore(s, latest_checkpoint("training"));
#else
  keeper.restore(s, *latest_checkpoint("training"));
#endif
}
