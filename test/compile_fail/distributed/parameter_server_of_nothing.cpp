// A parameter_server without a consistency.
// error: parameter_server: name how gradients are applied
#include <weft/distributed.hpp>
using namespace weft;

int main() {
  const cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
  server here(cluster, "worker", 0);
  graph g;
#ifdef WEFT_SHOULD_FAIL
  replicated_session s(g, here, parameter_server{});
#else
  replicated_session s(g, here, parameter_server<synchronous>{});
#endif
}
