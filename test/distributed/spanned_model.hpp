// SPDX-License-Identifier: BSL-1.0
#pragma once

// A linear model whose graph spans the tasks of a cluster, and such a cluster in this process.
#include <memory>
#include <string>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/graph_service.hpp>

#include "local_cluster.hpp"

namespace test {

using namespace weft;

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

  /// `of_last`: the graph of the last task, if it is another one.
  cluster_of(const graph& g, int tasks, T net = {}, graph_service_options how = {.session = {.threads = 1}},
             const graph* of_last = nullptr)
      : cluster(local_cluster(0, tasks, net)), network(net), options(how) {
    for (int t = 0; t < tasks; ++t) {
      servers.emplace_back();
      services.emplace_back();
      start(of_last && t + 1 == tasks ? *of_last : g, t);
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
  node<float, dims<2, 1>> doubled;
  node<float> loss;
  effect train;

  explicit model(bool pins)
      : w(on(g, pins, "/job:worker/task:1/cpu:0"_device,
             [&] { return variable<float, dims<2, 1>>(g, "w", init::constant{0.5f}); })),
        doubled(on(g, pins, "/job:worker/task:0"_device, [&] { return let(w * 2.0f); })),
        loss(on(g, pins, "/job:worker/task:2"_device,
                [&] { return let(mean(square(reshape<dims<dyn<"n">>>(matmul(x, w)) - y))); })),
        train(momentum{.learning_rate = 0.1f}.minimize(loss)) {}
};

inline const tensor<float, dims<dyn<"n">, 2>> xs = [] {
  tensor<float, dims<dyn<"n">, 2>> t(shape(3, 2));
  for (int i = 0; i < 6; ++i) t.data()[i] = static_cast<float>(i) / 4;
  return t;
}();
inline const tensor<float, dims<dyn<"n">>> ys = [] {
  tensor<float, dims<dyn<"n">>> t(shape(3));
  for (int i = 0; i < 3; ++i) t.data()[i] = static_cast<float>(i) - 1;
  return t;
}();

template <typename Step>
std::string problem_of(Step step) {
  try {
    step();
  } catch (const error& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace test
