// A node in place of a number.
// error: a tag, a number and the step: log\.add_scalar\("loss", 0\.25, 100\)
#include <weft/summary.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  event_writer log("runs/1");
#ifdef WEFT_SHOULD_FAIL
  log.add_scalar("loss", w, 1);
#else
  log.add_scalar("loss", 0.5, 1);
#endif
}
