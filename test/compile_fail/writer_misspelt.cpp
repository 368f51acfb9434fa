// A misspelt option of an event_writer.
// error: event_writer_options: flush_interval, max_queue, \.\.\.
#include <weft/summary.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  event_writer log("runs/1", {.flush_secs = 10});
#else
  event_writer log("runs/1");
#endif
}
