// SPDX-License-Identifier: BSL-1.0
// Two tasks that serve a graph, under libFuzzer: a client that has proved the secret sends frames made of the input,
// with requests to run a step that are damaged. Afterwards the step of another client must have its result.
//
//   build/asan/test/fuzz/fuzz_graph_service            goes on without end
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/graph_service.hpp>
#include <weft/queue.hpp>

#include "../distributed/hostile_client.hpp"

using namespace weft;

namespace {

/// The fuzzer's bytes, taken one after the other; zeros where they end.
struct input {
  const std::uint8_t* at;
  const std::uint8_t* end;

  std::uint32_t below(std::uint32_t count) { return (at == end ? 0u : *at++) % count; }
  bool one_in(std::uint32_t count) { return below(count) == count - 1; }
};

constexpr frame_kind kinds[] = {frame_kind::run_step,       frame_kind::run_step,     frame_kind::run_step,
                                frame_kind::transfer,       frame_kind::transfer,     frame_kind::step_ended,
                                frame_kind::cancel_step,    frame_kind::list_devices, frame_kind::read_variable,
                                frame_kind::write_variable, frame_kind::end_session,  frame_kind::reset,
                                frame_kind::heartbeat,      frame_kind::push_pull,    frame_kind::hello};

struct served_cluster {
  static constexpr int tasks = 2;

  graph g;
  node<float, dims<8>> x = placeholder<float, dims<8>>(g, "x");
  variable_node<float, dims<8>> w = variable<float, dims<8>>(g, "w", init::ones{});
  fifo_queue<float> queue{g, 4, {.shared_name = "fuzz", .device = "/job:worker/task:1"_device}};
  node<float> sum_there, taken, result;
  std::unique_ptr<server> servers[tasks];
  std::unique_ptr<graph_service<>> services[tasks];
  std::unique_ptr<session> client;
  step<float(tensor<float, dims<8>>)> honest;

  served_cluster() {
    {
      const device_scope there(g, "/job:worker/task:1"_device);
      sum_there = let(sum(x * 2.0f));
      queue.enqueue(std::chrono::milliseconds(20), sum_there);
      taken = queue.dequeue(g, std::chrono::milliseconds(20));
      assign_add(w, x);
    }
    {
      const device_scope here(g, "/job:worker/task:0"_device);
      result = let(sum_there + 1.0f);
    }
    std::string addresses;
    {
      std::vector<tcp::listener> held;
      for (int t = 0; t < tasks; ++t) {
        held.push_back(tcp().listen({"127.0.0.1", 0}));
        addresses += (t == 0 ? "" : ",") + to_string(held.back().address());
      }
    }
    const cluster_spec cluster{{"worker", addresses}};
    for (int t = 0; t < tasks; ++t) {
      servers[t] = std::make_unique<server>(cluster, "worker", t);
      services[t] = std::make_unique<graph_service<>>(*servers[t], g, graph_service_options{.session = {.threads = 1}});
    }
    client = std::make_unique<session>(
        g, session_options{.threads = 1, .target = "weft://" + to_string(servers[0]->address())});
    honest = client->prepare(fetch(result), feed(x));
  }

  void check_honest_client(float value) {
    tensor<float, dims<8>> fed;
    fed.fill(value);
    if (const float found = honest(fed); found != 16 * value + 1) {
      std::fprintf(stderr, "the step of another client is %g, not %g\n", static_cast<double>(found),
                   static_cast<double>(16 * value + 1));
      std::abort();
    }
  }

  /// A request to run any nodes of the graph, whose parts fit each other or do not.
  detail::run_message request(input& in, std::uint64_t client_incarnation) const {
    const auto any_node = [&] { return in.below(static_cast<std::uint32_t>(g.size()) + 1); };
    detail::run_message run;
    run.client_rank = tasks;
    run.client_incarnation = client_incarnation;
    run.signature = in.below(4);
    run.waits = in.one_in(4);
    for (std::uint32_t t = 0; t < tasks; ++t)
      if (!in.one_in(4)) {
        run.participants.push_back(t);
        run.processes.push_back(in.one_in(8) ? 1 : servers[t]->incarnation());
      }
    run.registers = !in.one_in(4);
    detail::step_registration& made = run.registration;
    made.graph = g.hash();
    made.seed = g.seed();
    for (std::uint32_t left = static_cast<std::uint32_t>(g.size()), part = 0; left > 0; left -= part) {
      part = std::min(left, 1 + in.below(8));
      made.placed.push_back({part, {false, 0, in.below(tasks + 1)}});
    }
    made.cpus = {1, 1 + in.below(2)};
    made.gpus = {0, 0};
    if (in.one_in(8)) made.restarted.push_back(in.below(tasks + 1));
    for (std::uint32_t n = in.below(3); n > 0; --n) made.request.fetches.push_back({any_node(), in.below(2)});
    for (std::uint32_t n = in.below(3); n > 0; --n) made.request.targets.push_back(any_node());
    for (std::uint32_t n = in.below(3); n > 0; --n) {
      made.request.feeds.push_back({in.one_in(4) ? any_node() : x.id().node, 0});
      run.extents.push_back(in.one_in(4) ? shape(in.below(9)) : shape(8));
    }
    run.placement = in.one_in(8) ? 1 : made.key();
    return run;
  }

  void attack(input& in, test::hostile_client& by) {
    for (std::uint32_t frames = 1 + in.below(6); frames > 0; --frames) {
      frame_header header;
      header.kind = kinds[in.below(std::size(kinds))];
      header.tag = in.below(4);
      header.step = static_cast<std::int64_t>(in.below(4));
      header.request = in.below(5);
      header.weight = in.below(8);
      header.deadline_us = in.below(3) * 1000;
      std::vector<std::byte> payload;
      if (header.kind == frame_kind::run_step || in.one_in(4))
        payload = request(in, by.incarnation).bytes();
      else
        for (std::uint32_t n = in.below(64); n > 0; --n) payload.push_back(static_cast<std::byte>(in.below(256)));
      for (std::uint32_t n = in.below(4); n > 0 && !payload.empty(); --n)
        payload[(in.below(256) * 256 + in.below(256)) % payload.size()] = static_cast<std::byte>(in.below(256));
      if (in.one_in(8)) payload.resize(payload.size() * in.below(256) / 256);
      if (!by.say(header, payload)) return;
    }
    std::vector<std::byte> rest;
    for (std::uint32_t n = in.one_in(4) ? in.below(128) : 0; n > 0; --n)
      rest.push_back(static_cast<std::byte>(in.below(256)));
    by.write(rest);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) try {
  static served_cluster& cluster = *new served_cluster();
  static std::uint64_t count = 0;
  input in{bytes, bytes + size};
  {
    test::hostile_client by(cluster.servers[in.below(served_cluster::tasks)]->address(), 1000 + ++count);
    cluster.attack(in, by);
  }
  cluster.check_honest_client(static_cast<float>(count % 1000));
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "another client's step fails: %s\n", e.what());
  std::abort();
}
