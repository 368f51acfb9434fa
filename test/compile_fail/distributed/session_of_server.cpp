// A session on a server, as TensorFlow has it.
// error: session_is_not_made_of
// error: session: it is made of a graph and options: session s\{g, \{\.threads = 4\}\}
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
  session s(g, here);
#else
  replicated_session s(g, here, parameter_server<synchronous>{});
#endif
}
