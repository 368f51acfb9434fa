// The folder before the session.
// error: keeper\.save\(session, "folder", step\)
#include <weft/checkpoint/saver.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  session s(g);
  saver keeper;
#ifdef WEFT_SHOULD_FAIL
  keeper.save("training", s, 1);
#else
  keeper.save(s, "training", 1);
#endif
}
