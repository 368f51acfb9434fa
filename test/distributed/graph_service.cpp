#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/graph_service.hpp>

#include "errors.hpp"
#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

/// The tasks of a cluster in this process: a server and a service for each.
template <typename T>
struct cluster_of {
  using server_type = basic_server<T>;
  using service_type = graph_service<server_type>;

  cluster_spec cluster;
  T network;
  graph_service_options options;
  std::vector<std::unique_ptr<server_type>> servers;
  std::vector<std::unique_ptr<service_type>> services;

  cluster_of(const graph& g, int tasks, T net = {}, graph_service_options how = {.session = {.threads = 1}})
      : cluster(test::local_cluster(0, tasks, net)), network(net), options(how) {
    for (int t = 0; t < tasks; ++t) {
      servers.emplace_back();
      services.emplace_back();
      start(g, t);
    }
  }
  ~cluster_of() {
    services.clear();
    servers.clear();
  }
  void start(const graph& g, int t) {
    servers[static_cast<std::size_t>(t)] =
        std::make_unique<server_type>(cluster, "worker", t, server_options{}, network);
    services[static_cast<std::size_t>(t)] =
        std::make_unique<service_type>(*servers[static_cast<std::size_t>(t)], g, options);
  }
  void stop(int t) {
    services[static_cast<std::size_t>(t)].reset();
    servers[static_cast<std::size_t>(t)].reset();
  }
};

template <class Make>
auto on(graph& g, bool pins, const device_spec& where, Make make) {
  const device_scope there(g, pins ? where : device_spec());
  return make();
}

/// A linear model whose weights and loss are on different tasks.
struct model {
  graph g;
  node<float, dims<dyn<"n">, 2>> x = placeholder<float, dims<dyn<"n">, 2>>(g);
  node<float, dims<dyn<"n">>> y = placeholder<float, dims<dyn<"n">>>(g);
  variable_node<float, dims<2, 1>> w;
  node<float> loss;
  effect train;

  explicit model(bool pins)
      : w(on(g, pins, "/job:worker/task:1/cpu:0"_device,
             [&] { return variable<float, dims<2, 1>>(g, "w", init::constant{0.5f}); })),
        loss(on(g, pins, "/job:worker/task:2"_device,
                [&] { return let(mean(square(reshape<dims<dyn<"n">>>(matmul(x, w)) - y))); })),
        train(momentum{.learning_rate = 0.1f}.minimize(loss)) {}
};

const tensor<float, dims<dyn<"n">, 2>> xs = [] {
  tensor<float, dims<dyn<"n">, 2>> t(shape(3, 2));
  for (int i = 0; i < 6; ++i) t.data()[i] = static_cast<float>(i) / 4;
  return t;
}();
const tensor<float, dims<dyn<"n">>> ys = [] {
  tensor<float, dims<dyn<"n">>> t(shape(3));
  for (int i = 0; i < 3; ++i) t.data()[i] = static_cast<float>(i) - 1;
  return t;
}();

template <typename T>
void train_on_three_tasks(T network) {
  model one(false), many(true);
  session alone(one.g, {.threads = 1});
  cluster_of<T> tasks(many.g, 3, network);
  session s(many.g, {.threads = 1, .target = tasks.services[0]->target()});
  auto expected = alone.prepare(fetch(one.loss, one.train), feed(one.x, one.y));
  auto found = s.prepare(fetch(many.loss, many.train), feed(many.x, many.y));
  for (int n = 0; n < 20; ++n) BOOST_TEST(std::get<0>(found(xs, ys)) == std::get<0>(expected(xs, ys)));
  BOOST_TEST(s.get(many.w).data()[0] == alone.get(one.w).data()[0]);
  BOOST_TEST(s.get(many.w).data()[1] == alone.get(one.w).data()[1]);
  // A second session finds the variables, and writes them.
  session second(many.g, {.threads = 1, .target = tasks.services[2]->target(0)});
  BOOST_TEST(second.get(many.w).data()[0] == alone.get(one.w).data()[0]);
  second.set(many.w, {1, 2});
  alone.set(one.w, {1, 2});
  BOOST_TEST(std::get<0>(found(xs, ys)) == std::get<0>(expected(xs, ys)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_span_tasks_in_this_process) { train_on_three_tasks(in_process()); }
BOOST_AUTO_TEST_CASE(steps_span_tasks_over_tcp) { train_on_three_tasks(tcp()); }
