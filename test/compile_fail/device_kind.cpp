// A device is named by its kind.
// error: cpu
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  device_scope there(g, cpu);
#else
  device_scope there(g, cpu{0});
#endif
}
