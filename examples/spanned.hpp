// SPDX-License-Identifier: BSL-1.0
#pragma once

// Functions that the examples of graphs that span tasks share.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/cluster/environment.hpp>
#include <weft/distributed/remote/graph_service.hpp>

/// Makes rows of `inputs` numbers, and for each what a network is to learn from them. `state` is that of a generator of
/// random numbers.
inline void make_examples(int rows, int inputs, float* x, float* y, std::uint32_t& state) {
  for (int row = 0; row < rows; ++row) {
    float sum = 0;
    for (int k = 0; k < inputs; ++k) {
      state = state * 1664525u + 1013904223u;
      const float v = static_cast<float>(state >> 8) / (1 << 23) - 1;
      x[row * inputs + k] = v;
      sum += k % 2 ? v : v * v;
    }
    y[row] = sum / 4;
  }
}

/// "/job:worker/task:n"
inline weft::device_spec task_device(int n) {
  const std::string name = "/job:worker/task:" + std::to_string(n);
  return weft::parse_device(name.data(), name.size());
}

/// Records what `make()` returns on task n, or on no task in particular where the graph is not `pinned`.
template <class Make>
auto in_task(weft::graph& g, bool pinned, int n, Make make) {
  const weft::device_scope there(g, pinned ? task_device(n) : weft::device_spec());
  return make();
}

/// The number of tasks that TF_CONFIG names, or `here` where nothing names any.
inline int task_count(std::int64_t here) {
  if (!std::getenv("TF_CONFIG")) return static_cast<int>(here);
  return weft::cluster_spec(weft::cluster_spec::from_environment().cluster).num_tasks("worker");
}

/// Runs the graph's steps on tasks: the processes of TF_CONFIG, where weft_launch has started this program, or servers
/// in this process that talk over TCP. `ask(target)` makes the session, and returns the program's exit status.
template <class Ask>
int on_tasks(const weft::graph& g, int tasks, Ask ask) {
  using namespace weft;
  if (std::getenv("TF_CONFIG")) {
    server here(cluster_spec::from_environment(), {.stop_patience = std::chrono::seconds(2)});
    graph_service service(here, g, {.session = {.threads = 1}});
    if (here.is_chief()) return ask(service.target());
    const join_report ended = here.join();  // serves the chief's steps until the chief leaves
    if (ended.interrupted) throw *ended.interrupted;
    for (const std::string& lost : ended.lost) std::fprintf(stderr, "error: %s\n", lost.c_str());
    return ended.signal ? 128 + ended.signal : ended.lost.empty() ? 0 : 1;
  }
  tcp network;
  std::string addresses;
  {
    std::vector<tcp::listener> held;
    for (int t = 0; t < tasks; ++t) {
      held.push_back(network.listen({"127.0.0.1", 0}));
      addresses += (t ? "," : "") + to_string(held.back().address());
    }
  }
  const cluster_spec cluster{{"worker", addresses}};
  std::vector<std::unique_ptr<server>> servers;
  std::vector<std::unique_ptr<graph_service<>>> services;
  for (int t = 0; t < tasks; ++t) {
    servers.push_back(std::make_unique<server>(cluster, "worker", t));
    services.push_back(
        std::make_unique<graph_service<>>(*servers.back(), g, graph_service_options{.session = {.threads = 1}}));
  }
  const int status = ask(services[0]->target());
  services.clear();
  return status;
}

/// Whether each variable of a session equals that of the same name of another session, to the bit.
inline bool equal_variables(const weft::graph& g, weft::session& s, const weft::graph& other_g, weft::session& other) {
  const auto variables_of = [](const weft::graph& of) {
    std::map<std::string, std::uint32_t> found;
    for (std::uint32_t n = 0; n < of.size(); ++n)
      if (weft::is_operation<weft::variable_op>(of[n].def.op)) found.emplace(of[n].name, n);
    return found;
  };
  const auto mine = variables_of(g), theirs = variables_of(other_g);
  bool equal = !mine.empty() && mine.size() == theirs.size();
  for (auto one = mine.begin(), two = theirs.begin(); equal && one != mine.end(); ++one, ++two) {
    std::vector<std::byte> a(g[one->second].def.outputs[0].bytes()), b(other_g[two->second].def.outputs[0].bytes());
    s.read_variable(one->second, a.data());
    other.read_variable(two->second, b.data());
    equal = one->first == two->first && a == b;
  }
  return equal;
}
