// A typing error in a device's name.
// error: device_name_is_malformed
// error: /job:NAME/task:N/device:KIND:N
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  device_scope there(g, "/job:ps/device:CPV:0"_device);
#else
  device_scope there(g, "/job:ps/device:CPU:0"_device);
#endif
}
