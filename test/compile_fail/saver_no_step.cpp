// A checkpoint without a step.
// error: keeper\.save\(session, "folder", step\)
#include <weft/checkpoint/saver.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  session s(g);
  saver keeper;
#ifdef WEFT_SHOULD_FAIL
  keeper.save(s, "training");
#else
  keeper.save(s, "training", 1);
#endif
}
