// Options stand where the strategy of a replicated session belongs.
// error: replicated_session_is_not_made_of
// error: replicated_session: write replicated_session s\(graph, server
#include <vector>
#include <weft/distributed.hpp>
using namespace weft;

int main() {
  cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
  server here(cluster, "worker", 0);
  graph g;
  auto w = variable<float>(g, "w");
  auto x = placeholder<float>(g, "x");
  auto loss = w * x;
  auto train = gradient_descent{}.minimize(loss);
#ifdef WEFT_SHOULD_FAIL
  replicated_session s(g, here, session_options{.threads = 2});
#else
  replicated_session s(g, here, parameter_server<synchronous>{}, {.threads = 2});
#endif
}
