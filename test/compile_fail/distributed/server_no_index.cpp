// A server without an index.
// error: server\(cluster, "worker", 0, \{\.\.\.\}\), of server_options
#include <weft/distributed.hpp>
using namespace weft;

int main() {
  cluster_spec cluster{{"ps", "127.0.0.1:2222"}};
#ifdef WEFT_SHOULD_FAIL
  server here(cluster, "ps");
#else
  server here(cluster, "ps", 0);
#endif
}
