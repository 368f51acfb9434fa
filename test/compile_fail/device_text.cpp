// A device is named by a plain string.
// error: device_is_not_a_device_spec
// error: device_scope: write
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  device_scope there(g, "/device:CPU:0");
#else
  device_scope there(g, "/device:CPU:0"_device);
#endif
}
