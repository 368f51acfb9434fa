// SPDX-License-Identifier: BSL-1.0
// Kernels keep what they make from a variable's values until these change; parameter servers and other workers change
// them as well.
#include <cstring>
#include <string>

#include <boost/test/unit_test.hpp>
#include <weft/distributed.hpp>
#include <weft/distributed/training/exchanges.hpp>

#include "local_cluster.hpp"

using namespace weft;

namespace {

using image_dims = dims<dyn<"batch">, 32, 32, 16>;
using images = tensor<float, image_dims>;
using filter_dims = dims<3, 3, 16, 64>;
using result = tensor<float, dims<dyn<"batch">, 32, 32, 64>>;

images some_images(std::int64_t n, int seed) {
  images x(shape(n, 32, 32, 16));
  for (std::size_t i = 0; i < x.elements(); ++i)
    x.data()[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed)) % 31) / 16 - 1;
  return x;
}

bool same_bits(const result& a, const result& b) {
  return a.elements() == b.elements() && std::memcmp(a.data(), b.data(), a.elements() * sizeof(float)) == 0;
}

template <class Strategy, transport T>
void check(Strategy strategy, int ps, T network) {
  const auto said = test::run_tasks(ps, 2, network, [&](basic_server<T>& here) {
    graph g(1);
    const device_scope on(g, replica_device_setter(here.cluster()));
    const auto x = placeholder<float, image_dims>(g, "x");
    const auto w = variable<float, filter_dims>(g, "w", init::normal{});
    const auto y = let(conv2d(x, w));
    const auto loss = let(mean(square(y)));
    const auto train = gradient_descent{.learning_rate = 0.5}.minimize(loss);
    replicated_session s(g, here, strategy, {.threads = 1});
    auto trains = s.prepare(fetch(loss, train), feed(x));
    const step<result(images)> infer = s.local().prepare(fetch(y), feed(x));
    result before = infer(some_images(1, 0));
    for (int i = 0; i < 3; ++i) {
      trains(some_images(2, here.index()));
      // A task without a server's hand in its memory.
      graph h(1);
      const auto xh = placeholder<float, image_dims>(h, "x");
      const auto wh = variable<float, filter_dims>(h, "w", init::zeros{});
      session fresh(h, {.threads = 1});
      const step<result(images)> expected = fresh.prepare(fetch(let(conv2d(xh, wh))), feed(xh));
      fresh.set(wh, s.local().get(w));
      const result now = infer(some_images(1, 0));
      test::require_in_task(!same_bits(now, before), "training has changed the result");
      test::require_in_task(same_bits(now, expected(some_images(1, 0))), "inference uses the new filters");
      before = now;
    }
    s.finish();
  });
  for (const std::string& text : said) BOOST_TEST(text == "");
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_from_parameter_servers_by_messages_are_seen) {
  check(parameter_server<synchronous>{}, 1, in_process{});
}
BOOST_AUTO_TEST_CASE(values_from_parameter_servers_in_shared_memory_are_seen) {
  check(parameter_server<synchronous>{}, 1, tcp{});
}
BOOST_AUTO_TEST_CASE(updates_after_an_all_reduce_are_seen) {
  check(collective{}, 0, in_process{});
  check(collective{}, 0, tcp{});
}
