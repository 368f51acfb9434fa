// A session initialized by `=`.
// error: session_options: threads, inter_op_threads, devices, pin, device, gpu, \.\.\.
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  session s = g;
#else
  session s(g);
#endif
}
