// SPDX-License-Identifier: BSL-1.0
// What programs for TensorFlow 1 do first with devices, over the tasks of a cluster.
#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/graph_service.hpp>
#include <weft/nn/dense.hpp>
#include <weft/ops/arrays/concat.hpp>

#include "errors.hpp"
#include "local_cluster.hpp"
#include "spanned_model.hpp"

using namespace weft;
using namespace test;

// with tf.device("/task:i"): tf.matmul(part[i], w); with tf.device("/cpu:0"): tf.concat(products, 0)
BOOST_AUTO_TEST_CASE(an_input_is_split_over_devices_and_joined_on_the_cpu) {
  graph g;
  const auto x = placeholder<float, dims<6, 2>>(g);
  const auto w = on(g, true, "/job:worker/task:0/cpu:0"_device,
                    [&] { return variable<float, dims<2, 2>>(g, "w", init::constant{2}); });
  const auto part = [&](const device_spec& where, int first) {
    return on(g, true, where, [&] { return let(matmul(let(slice<0, 2>(x, first)), w)); });
  };
  const auto a = part("/job:worker/task:0"_device, 0), b = part("/job:worker/task:1"_device, 2),
             c = part("/job:worker/task:2"_device, 4);
  const auto all = on(g, true, "/job:worker/task:0/cpu:0"_device, [&] { return let(concat<0>(a, b, c)); });
  cluster_of<in_process> tasks(g, 3, in_process());
  session s(g, {.threads = 1, .target = tasks.services[0]->target()});
  BOOST_TEST(s.explain(b).find("/task:1/") != std::string::npos);
  tensor<float, dims<6, 2>> in;
  for (int i = 0; i < 12; ++i) in.data()[i] = static_cast<float>(i);
  const auto out = s.eval(all, with(x, in));
  for (int r = 0; r < 6; ++r)
    for (int k = 0; k < 2; ++k) BOOST_TEST(out.data()[r * 2 + k] == 2.0f * static_cast<float>(2 * r + 2 * r + 1));
}

// with tf.device("/cpu:1"): variables; the product runs on another device.
BOOST_AUTO_TEST_CASE(variables_on_one_cpu_and_their_product_elsewhere) {
  graph g;
  const auto a = on(g, true, "/cpu:1"_device, [&] { return variable<float, dims<1, 2>>(g, "a", init::constant{3}); });
  const auto b = on(g, true, "/cpu:1"_device, [&] { return variable<float, dims<2, 1>>(g, "b", init::constant{2}); });
  const auto here = on(g, true, "/job:worker/task:0/cpu:0"_device, [&] { return let(matmul(a, b)); });
  const auto there = on(g, true, "/job:worker/task:1/cpu:0"_device, [&] { return let(matmul(a, b) + 1.0f); });
  cluster_of<in_process> tasks(g, 2, in_process(), {.session = {.threads = 1, .devices = 2}});
  session s(g, {.threads = 1, .target = tasks.services[0]->target()});
  BOOST_TEST(s.explain(a).find("/task:0/device:CPU:1") != std::string::npos, s.explain(a));
  BOOST_TEST(s.explain(here).find("/task:0/device:CPU:0") != std::string::npos, s.explain(here));
  BOOST_TEST(s.eval(here).data()[0] == 12);
  BOOST_TEST(s.eval(there).data()[0] == 13);
  BOOST_TEST(list_devices(s).size() == 4u);
}

// A body returns expressions, which are recorded after its scopes have ended.
BOOST_AUTO_TEST_CASE(scopes_in_bodies_are_refused) {
  graph g;
  // Clang 14 does not emit a literal operator that only a generic lambda calls.
  const device_spec one = "/job:worker/task:1"_device, nobody = "/job:nobody/task:7"_device;
  const auto x = placeholder<float, dims<4>>(g, "x");
  const auto above = let(sum(x) > 0.0f);
  const auto branch = [&](const auto& scope_of, bool records) {
    return problem_of([&] {
      const auto y = cond(
          above,
          [&](const auto& v) {
            [[maybe_unused]] const auto scope = scope_of();
            if (records) return let(tanh(v));
            return let(v * 1.0f);
          },
          [](const auto& v) { return v * 2.0f; }, x);
      static_cast<void>(let(y * 1.0f));
    });
  };
  const auto loop = problem_of([&] {
    const auto body = [&](const auto& k, const auto& v) {
      const device_scope d(g, one);
      return std::tuple{k + 1, tanh(v)};
    };
    static_cast<void>(while_loop([](const auto& k, const auto&) { return k < 3; }, body, tensor<std::int32_t>(0), x));
  });
  BOOST_TEST(contains(loop, "device scope for /job:worker/task:1"), loop);
  BOOST_TEST(contains(loop, "around the call"), loop);
  const auto condition = problem_of([&] {
    const auto ends = [&](const auto& k, const auto&) {
      const device_scope d(g, cpu{1});
      return k < 3;
    };
    static_cast<void>(while_loop(
        ends, [](const auto& k, const auto& v) { return std::tuple{k + 1, tanh(v)}; }, tensor<std::int32_t>(0), x));
  });
  BOOST_TEST(contains(condition, "around the call"), condition);
  const auto outer = problem_of([&] {
    static_cast<void>(cond(
        above,
        [&](const auto& v) {
          return cond(
              let(sum(v) > 1.0f),
              [&](const auto& u) {
                const device_scope d(g, nobody);
                return u * 2.0f;
              },
              [](const auto& u) { return u * 1.0f; }, v);
        },
        [](const auto& v) { return v * 1.0f; }, x));
  });
  BOOST_TEST(contains(outer, "/job:nobody/task:7"), outer);
  const auto pins = [&] { return device_scope(g, "/job:worker/task:1"_device); };
  BOOST_TEST(contains(branch(pins, true), "around the call"));
  // Scopes that have ended or are around the call.
  {
    const device_scope ended(g, cpu{0});
  }
  BOOST_TEST(branch([] { return 0; }, true) == "nothing");
  const device_scope around(g, "/job:worker/task:1"_device);
  BOOST_TEST(branch([] { return 0; }, true) == "nothing");
}

// A loop on a worker captures a variable of a parameter server, and one that a layer in its body creates there.
BOOST_AUTO_TEST_CASE(bodies_capture_variables_of_other_tasks) {
  graph g;
  const device_spec server_of_w = "/job:worker/task:1/cpu:0"_device;
  const auto x = placeholder<float, dims<3, 2>>(g, "x");
  const auto w = on(g, true, server_of_w, [&] { return variable<float, dims<2>>(g, "w", init::constant{2}); });
  const nn::dense<2> layer{.weights_init = init::ones{}};
  const auto loss = on(g, true, "/job:worker/task:0/cpu:0"_device, [&] {
    return let(sum(fold([&](auto h, auto row) { return h + w * layer(reshape<dims<1, 2>>(row)); },
                        constant(g, tensor<float, dims<1, 2>>()), rows(x))));
  });
  const auto train = gradient_descent{.learning_rate = 0.5f}.minimize(loss);
  cluster_of<in_process> tasks(g, 2, in_process());
  session s(g, {.threads = 1, .target = tasks.services[0]->target()});
  BOOST_TEST(s.explain(w).find("/task:1/") != std::string::npos, s.explain(w));
  BOOST_TEST(s.explain(loss).find("/task:0/") != std::string::npos, s.explain(loss));
  auto step = s.prepare(fetch(loss, train), feed(x));
  const tensor<float, dims<3, 2>> in{1, 2, 3, 4, 5, 6};
  BOOST_TEST(std::get<0>(step(in)) == 2 * 2 * 21);
  BOOST_TEST(s.get(w).data()[1] == 2 - 0.5f * 21);
  BOOST_TEST(s.get(layer.weights.as<dims<2, 2>>())(1, 0) == 1 - 0.5f * 2 * 12);
}

// with tf.device(tf.train.replica_device_setter(cluster=cluster)), and a session that names the worker's server.
BOOST_AUTO_TEST_CASE(variables_are_dealt_to_parameter_servers_of_a_target) {
  tcp network;
  const cluster_spec cluster = local_cluster(2, 1, network);
  graph g;
  const auto make = [&] {
    const device_scope dealt(g, replica_device_setter(cluster));
    std::vector<variable_node<float, dims<2>>> all;
    for (const char* name : {"a", "b", "c"}) all.push_back(variable<float, dims<2>>(g, name, init::constant{1}));
    return all;
  };
  const auto all = make();
  const auto loss = let(sum(all[0] + all[1] + all[2]));
  const auto train = gradient_descent{.learning_rate = 0.5f}.minimize(loss);
  std::vector<std::unique_ptr<server>> servers;
  std::vector<std::unique_ptr<graph_service<>>> services;
  for (const task_id& t : cluster.tasks()) {
    servers.push_back(std::make_unique<server>(cluster, t.job, t.index));
    services.push_back(
        std::make_unique<graph_service<>>(*servers.back(), g, graph_service_options{.session = {.threads = 1}}));
  }
  session s(g, {.threads = 1, .target = "weft://" + to_string(cluster.task_address("worker", 0))});
  BOOST_TEST(s.explain(all[0]).find("/job:ps/replica:0/task:0") != std::string::npos, s.explain(all[0]));
  BOOST_TEST(s.explain(all[1]).find("/job:ps/replica:0/task:1") != std::string::npos, s.explain(all[1]));
  BOOST_TEST(s.explain(all[2]).find("/job:ps/replica:0/task:0") != std::string::npos, s.explain(all[2]));
  BOOST_TEST(s.explain(loss).find("/job:worker/replica:0/task:0") != std::string::npos, s.explain(loss));
  s.run(fetch(train));
  BOOST_TEST(s.get(all[1]).data()[0] == 0.5f);
  services.clear();
}
