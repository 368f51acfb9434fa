// A number of servers in place of the cluster.
// error: replica_device_setter\(cluster\)
#include <weft/distributed.hpp>
using namespace weft;

int main() {
  cluster_spec cluster{{"ps", "127.0.0.1:2222"}};
  graph g;
#ifdef WEFT_SHOULD_FAIL
  device_scope on(g, replica_device_setter(2));
#else
  device_scope on(g, replica_device_setter(cluster));
#endif
}
