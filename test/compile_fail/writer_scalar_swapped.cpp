// The step before the tag.
// error: a tag, a number and the step: log\.add_scalar\("loss", 0\.25, 100\)
#include <weft/summary.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  event_writer log("runs/1");
#ifdef WEFT_SHOULD_FAIL
  log.add_scalar(1, "loss", 0.5);
#else
  log.add_scalar("loss", 0.5, 1);
#endif
}
