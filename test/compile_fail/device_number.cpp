// A device by its number.
// error: device_scope on\(graph, cpu\{0\}\), or \(graph, "/device:CPU:0"_device\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  device_scope on(g, 0);
#else
  device_scope on(g, cpu{0});
#endif
}
