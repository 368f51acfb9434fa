// A misspelt option of a session.
// error: session_options: threads, inter_op_threads, devices, pin, device, gpu, \.\.\.
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  session s{g, {.thread = 4}};
#else
  session s{g, {.threads = 4}};
#endif
}
