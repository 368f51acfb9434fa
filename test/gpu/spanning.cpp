// SPDX-License-Identifier: BSL-1.0
// Steps that span tasks whose nodes run on GPUs: a value crosses from the GPU of one task to that of another through
// memory of the host, and a step yields what a session yields that has all GPUs.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>
#include <weft/ops/gpu/all.hpp>
#include <weft/ops/gpu/matmul.hpp>
#include <weft/session/gpu_session.hpp>
#include <weft/weft.hpp>
#include "emulated.hpp"

#include "../distributed/tasks_in_process.hpp"

using namespace weft;

namespace {

/// A perceptron whose layers are on the devices that it is given.
struct model {
  graph g;
  node<float, dims<dyn<"n">, 8>> x = placeholder<float, dims<dyn<"n">, 8>>(g);
  std::vector<std::uint32_t> variables;
  sequence<value> fetches;
  std::uint32_t train;

  explicit model(const std::vector<device_spec>& on) {
    const auto there = [&](std::size_t k, auto make) {
      const device_scope place(g, on[k]);
      return make();
    };
    const auto w0 = there(0, [&] { return variable<float, dims<8, 16>>(g, "w0", init::glorot_uniform{}); });
    const auto h = there(0, [&] { return let(tanh(matmul(x, w0))); });
    const auto w1 = there(1, [&] { return variable<float, dims<16, 16>>(g, "w1", init::glorot_uniform{}); });
    const auto h1 = there(1, [&] { return let(tanh(matmul(h, w1))); });
    const auto both = there(2, [&] { return let(h1 * h); });
    const auto loss = there(2, [&] { return let(mean(square(both - 0.25f))); });
    train = momentum{.learning_rate = 0.5f}.minimize(loss).erased().id().node;
    fetches = {loss.id(), both.id(), w1.id()};
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(values_cross_between_the_gpus_of_two_tasks) {
  for (const bool early : {false, true})
    for (const bool record : {false, true}) {
      gpu::emulated_platform gpus({.devices = 2, .early = early});
      session_options options{.threads = 1};
      options.gpu.record_steps = record;
      // The same kernels: a session with both GPUs has the first task's on the first and the second task's on the
      // other.
      const model one({cuda{0}, cuda{1}, cpu{0}});
      const model many(
          {"/job:worker/task:0/gpu:0"_device, "/job:worker/task:1/gpu:0"_device, "/job:worker/task:1/cpu:0"_device});
      session alone(one.g, options);
      test::tasks_in_process spread(many.g, 2, options);
      prepared_step right(alone, {one.fetches, {one.train}, {one.x.id()}});
      test::tasks_in_process::step found(spread, {many.fetches, {many.train}, {many.x.id()}});
      for (int n = 0; n < 4; ++n) {
        const std::int64_t rows = n < 3 ? 4 : 7;
        std::vector<float> x(static_cast<std::size_t>(rows) * 8);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) + static_cast<float>(n));
        const plan::fed_value fed[] = {{x.data(), shape(rows, 8)}, {}};
        std::vector<std::vector<float>> expected(3), got(3);
        const auto into = [](std::vector<std::vector<float>>& to) {
          return [&to](std::size_t i, const shape& extents) -> void* {
            to[i].assign(extents.elements(), 0);
            return to[i].data();
          };
        };
        right.run(fed, into(expected));
        found.run(fed, into(got));
        for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(got[i] == expected[i], boost::test_tools::per_element());
      }
      BOOST_TEST(found.part(1).explain().find("copy from the host") != std::string::npos, found.part(1).explain());
      for (int d = 0; d < 2; ++d) BOOST_TEST(gpus.device(d).mistakes().empty());
    }
}
