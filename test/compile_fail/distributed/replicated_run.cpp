// A replicated session runs like a session.
// error: no member named 'run'
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
  replicated_session s(g, here, parameter_server<synchronous>{});
#ifdef WEFT_SHOULD_FAIL
  s.run(fetch(loss, train), with(x, 1.0f));
#else
  auto step = s.prepare(fetch(loss, train), feed(x));
  step(1.0f);
#endif
}
