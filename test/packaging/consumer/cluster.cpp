// SPDX-License-Identifier: BSL-1.0
#include <weft/distributed.hpp>

#include <string>
#include <thread>

using namespace weft;

namespace {

std::string free_address() {
  tcp network;
  return to_string(network.listen({"127.0.0.1", 0}).address());
}

/// Trains (x - 3)^2 until x is near 3, and returns it.
template <class Strategy>
float train(server& here, const Strategy& strategy) {
  graph g;
  const auto x = variable<float>(g, "x", 0);
  const auto step_down = gradient_descent{0.25}.minimize(square(x - 3.f));
  replicated_session s(g, here, strategy);
  auto step = s.prepare(fetch(step_down), feed());
  for (int i = 0; i < 30; ++i) step();
  const float reached = s.local().get(x);
  s.finish();
  return reached;
}

}  // namespace

int main() {
  const std::string ps = free_address(), worker = free_address();
  const cluster_spec cluster{{"ps", {ps}}, {"worker", {worker}}};
  std::thread serving([&] { server(cluster, "ps", 0).join(); });
  float by_server = 0;
  {
    server here(cluster, "worker", 0);
    by_server = train(here, parameter_server<synchronous>{});
  }
  serving.join();

  const cluster_spec alone{{"worker", {free_address()}}};
  server here(alone, "worker", 0);
  const float by_mean = train(here, collective{});
  return by_server > 2.99f && by_server < 3.01f && by_mean > 2.99f && by_mean < 3.01f ? 0 : 1;
}
