// SPDX-License-Identifier: BSL-1.0
// Times steps of graphs that span tasks over loopback. First 1 kB that goes through tasks 1 and 2 of three processes
// and back: to a client outside the cluster, and to a session in task 1. Then tasks that are servers in this process: a
// value of 1 kB that goes to another task and back, 100 MB from task to task, a step that fetches a scalar of each of
// 16 tasks, and elements of a queue in another task. The peers are the same bytes over a bare connection. Last a
// training step with an embedding of 1 GB in another task; the peer is one of 1 MB. Prints JSON objects with medians
// and 99th percentiles; medians of alternating rounds.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/graph_service.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/queue.hpp>
#include <weft/transport/framing.hpp>

#include "free_addresses.hpp"
#include "timing.hpp"

using namespace weft;

namespace {

device_spec task(int n) {
  const std::string name = "/job:worker/task:" + std::to_string(n);
  return parse_device(name.data(), name.size());
}
template <class Make>
auto on(graph& g, int t, Make make) {
  const device_scope there(g, task(t));
  return make();
}

struct cluster {
  std::vector<std::unique_ptr<server>> servers;
  std::vector<std::unique_ptr<graph_service<>>> services;

  cluster(const graph& g, int tasks) {
    const cluster_spec spec{{"worker", bench::free_addresses(tasks)}};
    for (int t = 0; t < tasks; ++t) {
      servers.push_back(std::make_unique<server>(spec, "worker", t));
      services.push_back(
          std::make_unique<graph_service<>>(*servers.back(), g, graph_service_options{.session = {.threads = 1}}));
    }
  }
  ~cluster() {
    services.clear();
    servers.clear();
  }
};

/// Bytes over a connection, and so many back.
class bare {
 public:
  bare(std::size_t there, std::size_t back) : sent_(there, std::byte{7}), received_(back) {
    any_transport::listener door = network_.listen({"127.0.0.1", 0});
    here_ = network_.connect(door.address());
    while (!door.accept(there_)) {
    }
    answers_ = std::thread([this, there, back] {
      std::vector<std::byte> taken(there), given(back, std::byte{9});
      while (!ends_) {
        if (!receive(there_, taken)) continue;
        send(there_, given);
      }
    });
  }
  ~bare() {
    ends_ = true;
    answers_.join();
  }
  void operator()() {
    send(here_, sent_);
    while (!receive(here_, received_)) {
    }
  }

 private:
  void send(any_transport::stream& by, const std::vector<std::byte>& payload) {
    frame_header header;
    header.kind = frame_kind::transfer;
    frame_writer out;
    out.start(header, payload);
    waiter idle(network_, wait_policy::for_tasks(2));
    while (!out.idle()) {
      if (out.advance(by) > 0) continue;
      any_transport::wait_item item{&by, false, true};
      idle.pause({&item, 1}, deadline(std::chrono::seconds(1)));
    }
  }
  bool receive(any_transport::stream& by, std::vector<std::byte>& payload) {
    frame_reader in;
    in.expect(payload.size());
    waiter idle(network_, wait_policy::for_tasks(2));
    while (!in.complete()) {
      const std::size_t moved = in.advance(by);
      if (in.needs_destination()) {
        in.payload_to(mutable_bytes(payload));
        continue;
      }
      if (moved > 0 || in.complete()) continue;
      if (ends_) return false;
      any_transport::wait_item item{&by, true, false};
      idle.pause({&item, 1}, deadline(std::chrono::milliseconds(100)));
    }
    return true;
  }

  any_transport network_ = tcp();
  any_transport::stream here_, there_;
  std::vector<std::byte> sent_, received_;
  std::atomic<bool> ends_{false};
  std::thread answers_;
};

double median(std::vector<double> of) { return bench::summarise(std::move(of)).median; }

/// Alternates between the two, and prints the medians and their ratio.
template <class Step, class Peer>
void compare(const char* name, int rounds, double seconds, int warm_up, Step step, Peer peer,
             const char* peer_name = "transport") {
  std::vector<double> ours[2], theirs[2];  // medians, 99th percentiles
  const auto note = [&](const bench::timing& one, std::vector<double>(&to)[2]) {
    to[0].push_back(one.median);
    to[1].push_back(one.p99);
  };
  for (int r = 0; r < rounds; ++r) {
    note(bench::time({.seconds = seconds, .warm_up = warm_up}, step), ours);
    note(bench::time({.seconds = seconds, .warm_up = warm_up}, peer), theirs);
  }
  for (const bool is_ours : {false, true}) {
    const auto& all = is_ours ? ours : theirs;
    std::printf("{\"peer\": \"%s\", \"case\": \"%s\", \"us\": %.1f, \"p99_us\": %.1f}\n", is_ours ? "weft" : peer_name,
                name, median(all[0]) * 1e6, median(all[1]) * 1e6);
  }
  std::fflush(stdout);
}

/// A training step that looks up 64 rows of 256 bytes of a table in task 1, and updates them there.
template <int Rows>
class embedding {
 public:
  embedding()
      : table_(on(g_, 1, [&] { return variable<float, dims<Rows, 64>>(g_, "table", init::zeros{}); })),
        loss_(on(g_, 1, [&] { return let(mean(square(gather(table_, ids_) - 1.0f))); })),
        train_(gradient_descent{.learning_rate = 0.1f}.minimize(loss_)),
        tasks_(g_, 2),
        s_(g_, {.threads = 1, .target = tasks_.services[0]->target()}),
        step_(s_.prepare(fetch(loss_, train_), feed(ids_))) {
    for (int k = 0; k < 64; ++k) picked_.data()[k] = static_cast<int>((k * 2'654'435'761u) % Rows);
  }
  void operator()() { step_(picked_); }

 private:
  graph g_;
  node<std::int32_t, dims<64>> ids_ = placeholder<std::int32_t, dims<64>>(g_);
  variable_node<float, dims<Rows, 64>> table_;
  node<float> loss_;
  effect train_;
  cluster tasks_;
  session s_;
  decltype(std::declval<session&>().prepare(fetch(loss_, train_), feed(ids_))) step_;
  tensor<std::int32_t, dims<64>> picked_;
};

/// Elements of N floats that a step puts into a queue of task 1, and another one takes out.
template <int N>
void compare_queues(const char* name, int rounds, double seconds, int warm_up) {
  using namespace std::chrono_literals;
  graph g;
  const auto x = placeholder<float, dims<N>>(g);
  fifo_queue<tensor<float, dims<N>>> queue(g, 4, {.shared_name = name, .device = task(1)});
  const auto put = queue.enqueue(10min, x);
  const auto next = queue.dequeue(g, 10min);
  const cluster tasks(g, 2);
  session s(g, {.threads = 1, .target = tasks.services[0]->target()});
  auto puts = s.prepare(fetch(put), feed(x));
  auto takes = s.prepare(fetch(next), feed());
  const tensor<float, dims<N>> value;
  bare there(sizeof(float) * N, 4), back(4, sizeof(float) * N);
  compare(
      name, rounds, seconds, warm_up,
      [&] {
        puts(value);
        takes();
      },
      [&] {
        there();
        back();
      });
}

/// A value of 1 kB that goes to task 1, on to task 2, and back, where each task is a process.
class three_processes {
 public:
  /// `own`: the task of this process, or 3 for a client outside the cluster.
  explicit three_processes(int own)
      : own_(own),
        there_(on(g_, 1, [&] { return let(x_ * 2.0f); })),
        next_(on(g_, 2, [&] { return let(there_ + 1.0f); })),
        spec_{{"worker", bench::free_addresses(3)}} {
    for (int t = 0; t < 3; ++t) {
      if (t == own) continue;
      const pid_t id = ::fork();
      if (id == 0) {
        server here(spec_, "worker", t);
        graph_service<> tasks(here, g_, {.session = {.threads = 1}});
        tasks.serve();
        ::_exit(0);
      }
      others_.push_back(id);
    }
  }
  ~three_processes() {
    for (const pid_t id : others_) {
      ::kill(id, SIGKILL);
      ::waitpid(id, nullptr, 0);
    }
  }
  void compare_with_bare(const char* name, int rounds) {
    std::unique_ptr<server> here;
    std::unique_ptr<graph_service<>> tasks;
    std::unique_ptr<graph_client> client;
    session_target target;
    if (own_ < 3) {
      here = std::make_unique<server>(spec_, "worker", own_);
      tasks = std::make_unique<graph_service<>>(*here, g_, graph_service_options{.session = {.threads = 1}});
      target = tasks->target();
    } else {
      client = std::make_unique<graph_client>("weft://" + to_string(spec_.task_address("worker", 0)));
      target = client->target();
    }
    {
      session s(g_, {.threads = 1, .target = target});
      auto step = s.prepare(fetch(next_), feed(x_));
      const tensor<float, dims<256>> value;
      bare peer(1024, 1024);
      compare(name, rounds, 1, 200, [&] { step(value); }, [&] { peer(); });
    }
    tasks.reset();
  }

 private:
  int own_;
  graph g_;
  node<float, dims<256>> x_ = placeholder<float, dims<256>>(g_);
  node<float, dims<256>> there_, next_;
  cluster_spec spec_;
  std::vector<pid_t> others_;
};

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const int rounds = a.take("--rounds", 5);
  const bool steps_only = a.take("--steps-only");  // those that spanning_tf.py times, too
  a.finish("bench_spanning [--rounds N] [--steps-only]");
  {
    // Made before this process has threads.
    three_processes outside(3);
    outside.compare_with_bare("1 kB through 3 processes, a client outside", rounds);
  }
  {
    three_processes inside(1);
    inside.compare_with_bare("1 kB through 3 processes, a session in task 1", rounds);
  }
  {
    // The client is in task 0's process: the value travels from there to task 1, and the result back.
    graph g;
    const auto x = placeholder<float, dims<256>>(g);
    const auto there = on(g, 1, [&] { return let(x * 2.0f); });
    const cluster tasks(g, 2);
    session s(g, {.threads = 1, .target = tasks.services[0]->target()});
    auto step = s.prepare(fetch(there), feed(x));
    const tensor<float, dims<256>> value;
    bare peer(1024, 1024);
    compare("1 kB there and back", rounds, 0.5, 100, [&] { step(value); }, [&] { peer(); });
  }
  {
    graph g;
    const auto big = on(g, 0, [&] { return variable<float, dims<25'000'000>>(g, "big", init::ones{}); });
    const auto first = on(g, 1, [&] { return let(slice<0, 0, 1>(big) + 1.0f); });
    const cluster tasks(g, 2);
    session s(g, {.threads = 1, .target = tasks.services[0]->target()});
    auto step = s.prepare(fetch(first));
    bare peer(100'000'000, 4);
    compare("100 MB to a task", rounds, 1, 1, [&] { step(); }, [&] { peer(); });
  }
  {
    graph g;
    const auto one = [&](int t) {
      return on(g, t, [&] { return let(variable<float>(g, ("v" + std::to_string(t)).c_str(), init::ones{}) + 1.0f); });
    };
    std::vector<node<float>> v;
    for (int t = 0; t < 16; ++t) v.push_back(one(t));
    const cluster tasks(g, 16);
    session s(g, {.threads = 1, .target = tasks.services[0]->target()});
    auto step = s.prepare(
        fetch(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]),
        feed());
    bare peer(64, 64);
    compare("16 scalars of 16 tasks", rounds, 0.5, 50, [&] { step(); }, [&] { peer(); });
  }
  if (steps_only) return 0;
  compare_queues<1>("a scalar into a queue and out", rounds, 0.5, 100);
  compare_queues<2'500'000>("10 MB into a queue and out", rounds, 1, 2);
  embedding<4'000'000> big;
  embedding<4'000> small;
  compare("training step with an embedding of 1 GB", rounds, 0.5, 100, [&] { big(); }, [&] { small(); }, "1 MB");
}
