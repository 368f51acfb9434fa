// A std::vector is fed to a step of a replicated session.
// error: fed_value_is_not_a_tensor
// error: std::vector<float
// error: a step takes a tensor, tensor_view\(pointer
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
  auto step = s.prepare(fetch(loss, train), feed(x));
  std::vector<float> values(3);
#ifdef WEFT_SHOULD_FAIL
  step(values);
#else
  step(values[0]);
#endif
}
