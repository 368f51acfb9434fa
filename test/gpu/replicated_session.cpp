// SPDX-License-Identifier: BSL-1.0
// Workers whose variables and kernels are on GPUs, beside workers on CPUs: the same cluster, the same values.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/training/exchanges.hpp>
#include <weft/ops/gpu/all.hpp>
#include <weft/ops/gpu/matmul.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/session/gpu_session.hpp>
#include "emulated.hpp"

#include "distributed/local_cluster.hpp"

using namespace weft;

namespace {

using batch = dims<dyn<"batch">>;

/// Trains two workers for six steps; each worker's variables afterwards.
template <class Strategy, transport T>
std::vector<std::vector<float>> train(Strategy strategy, int ps, T network, const device_spec& device) {
  std::vector<std::vector<float>> results(2);
  const auto said = test::run_tasks(ps, 2, network, [&](basic_server<T>& here) {
    graph g(3);
    const device_scope on(g, replica_device_setter(here.cluster()));
    auto x = placeholder<float, dims<dyn<"batch">, 12>>(g, "x");
    auto y = placeholder<std::int32_t, batch>(g, "y");
    auto w = variable<float, dims<12, 4>>(g, "w", init::glorot_uniform{});
    auto b = variable<float, dims<4>>(g, "b", init::zeros{});
    auto table = variable<float, dims<9, 4>>(g, "table", init::zeros{});
    auto loss = let(mean(softmax_cross_entropy(matmul(x, w) + b + 0.5f * gather(table, y), y)));
    auto update = momentum{.learning_rate = 0.3, .momentum = 0.5}.minimize(loss);
    replicated_session s(g, here, strategy, {.threads = 1, .device = device});
    auto step = s.prepare(fetch(loss, update), feed(x, y));
    for (std::int64_t i = 0; i < 6; ++i) {
      tensor<float, dims<dyn<"batch">, 12>> images(shape(8, 12));
      tensor<std::int32_t, batch> classes(shape{8});
      const auto first = std::int64_t{here.index()} * 100 + i * 1000;
      for (std::int64_t k = 0; k < 96; ++k) images.data()[k] = std::sin(0.37f * static_cast<float>(first + k));
      for (std::int64_t k = 0; k < 8; ++k) classes.data()[k] = static_cast<std::int32_t>((first + k * 7) % 4);
      test::require_in_task(std::isfinite(std::get<0>(step(images, classes))), "the cost is finite");
    }
    s.finish();
    std::vector<float>& values = results[static_cast<std::size_t>(here.index())];
    values.resize(12 * 4 + 4 + 9 * 4);
    s.local().read_variable(w.id().node, values.data());
    s.local().read_variable(b.id().node, values.data() + 48);
    s.local().read_variable(table.id().node, values.data() + 52);
    test::require_in_task(values[52] != 0 && values[52 + 9 * 4 - 1] == 0, "the first row is taken, the last is not");
  });
  for (const std::string& text : said) BOOST_TEST(text == "");
  return results;
}

template <class Strategy, transport T>
void check_like_cpus(Strategy strategy, int ps, T network) {
  gpu::emulated_platform gpus;
  const auto on_gpu = train(strategy, ps, network, cuda{0});
  BOOST_TEST(gpus.device(0).count().kernels > 0u);
  BOOST_TEST(gpus.device(0).mistakes().empty());
  const gpu::emulated_platform others;
  const auto on_cpu = train(strategy, ps, network, cpu{0});
  BOOST_TEST(others.opened() == 0);  // neither by these workers nor by a parameter server
  for (std::size_t worker = 0; worker < 2; ++worker) {
    BOOST_REQUIRE_EQUAL(on_gpu[worker].size(), on_cpu[worker].size());
    for (std::size_t i = 0; i < on_cpu[worker].size(); ++i)
      BOOST_CHECK_SMALL(on_gpu[worker][i] - on_cpu[worker][i], 1e-5f);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(synchronous_parameter_servers_train_variables_on_gpus) {
  check_like_cpus(parameter_server<synchronous>{}, 1, in_process{});
  check_like_cpus(parameter_server<synchronous>{}, 2, tcp{});
}

BOOST_AUTO_TEST_CASE(an_all_reduce_trains_variables_on_gpus) {
  check_like_cpus(collective{}, 0, in_process{});
  check_like_cpus(collective{}, 0, tcp{});
}

BOOST_AUTO_TEST_CASE(an_asynchronous_parameter_server_trains_variables_on_gpus) {
  gpu::emulated_platform gpus;
  for (const auto& values : train(parameter_server<asynchronous>{}, 1, tcp{}, cuda{0}))
    for (const float v : values) BOOST_TEST(std::isfinite(v));
}
