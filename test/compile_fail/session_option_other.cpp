// An option of a session under TensorFlow's name.
// error: session_options: threads, inter_op_threads, devices, pin, device, gpu, \.\.\.
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  session s(g, {.num_threads = 4});
#else
  session s(g, {.threads = 4});
#endif
}
