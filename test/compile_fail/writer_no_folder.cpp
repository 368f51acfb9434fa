// An event_writer without a folder.
// error: event_writer log\("runs/1"\);
#include <weft/summary.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  event_writer log;
#else
  event_writer log("runs/1");
#endif
}
