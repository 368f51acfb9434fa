// SPDX-License-Identifier: BSL-1.0
#include "task.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include <weft/data/fashion_mnist.hpp>
#include <weft/distributed.hpp>
#include <weft/weft.hpp>

#include "../batches_of_replicas.hpp"
#include "../test_accuracy.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

std::optional<data::labelled_images<784>> train_images, test_images;

volatile std::sig_atomic_t told_to_end = 0;

struct model {
  graph g{1};
  node<float, dims<dyn<"batch">, 784>> images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  node<std::int32_t, dims<dyn<"batch">>> labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  variable_node<float, dims<784, 32>> w1 = variable<float, dims<784, 32>>(g, "hidden/weights", init::glorot_uniform{});
  variable_node<float, dims<32>> b1 = variable<float, dims<32>>(g, "hidden/bias", init::zeros{});
  variable_node<float, dims<32, 10>> w2 = variable<float, dims<32, 10>>(g, "softmax/weights", init::glorot_uniform{});
  variable_node<float, dims<10>> b2 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});
  node<float, dims<dyn<"batch">, 10>> logits;
  node<float> loss, accuracy;
  effect train;

  explicit model(double rate)
      : logits(let(matmul(sigmoid(matmul(images, w1) + b1), w2) + b2)),
        loss(let(mean(softmax_cross_entropy(logits, labels)))),
        accuracy(let(mean(cast<float>(argmax<1>(logits) == labels)))),
        train(momentum{.learning_rate = rate, .momentum = 0.9}.minimize(loss)) {}
};

class teller {
 public:
  explicit teller(const task_place& here) : here_(here) {}

  void operator()(event::what kind, std::int64_t step, double number = 0, const std::string& text = {}) const {
    event e;
    e.time = nanoseconds_now();
    e.kind = kind;
    e.process = here_.process;
    e.at = step;
    e.number = number;
    std::snprintf(e.text, sizeof e.text, "%s", text.c_str());
    if (::write(here_.tell, &e, sizeof e) != sizeof e) ::_exit(1);  // nobody listens any more
  }

 private:
  const task_place& here_;
};

/// FNV-1a of the bits of all variables.
std::string digest(session& s, const model& m) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint32_t n : {m.w1.id().node, m.b1.id().node, m.w2.id().node, m.b2.id().node}) {
    std::vector<float> values(s.variable_info(n).extents.elements());
    s.read_variable(n, values.data());
    const auto* const bytes = reinterpret_cast<const unsigned char*>(values.data());
    for (std::size_t i = 0; i < values.size() * sizeof(float); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  }
  std::array<char, 17> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

template <class Strategy>
void train(server& here, Strategy how, const model& m, int workers, std::int64_t steps, std::chrono::microseconds pause,
           const teller& tell) {
  replicated_session s(m.g, here, how, {.threads = 1}, 60s);
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.images, m.labels));
  batches_of_replicas batches([workers](std::size_t worker) {
    return train_images->shuffled(1).shard(worker, static_cast<std::size_t>(workers)).batches(50);
  });
  tell(event::joined, s.next_step());
  struct ended_by_signal {};
  try {
    s.train_until(steps, [&] {
      std::this_thread::sleep_for(pause);
      const std::int64_t next = s.next_step();
      const auto [cost, trained] = step.run(batches, 60s);
      tell(event::step, next, static_cast<double>(cost));
      if (told_to_end) throw ended_by_signal{};
    });
  } catch (const ended_by_signal&) {
    s.leave("stopped by SIGTERM");
    return tell(event::left, s.next_step());
  }
  tell(event::finished, s.next_step(), test_accuracy(s.local(), m, *test_images, 1000), digest(s.local(), m));
}

}  // namespace

std::int64_t nanoseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void read_images(const std::string& folder) {
  train_images = data::fashion_mnist("train", folder);
  test_images = data::fashion_mnist("test", folder);
}

int be_task(const cluster_plan& plan, const task_place& place, std::int64_t steps, std::chrono::microseconds pause) {
  const teller tell(place);
  try {
    cluster_spec cluster;
    if (plan.servers > 0) cluster.add_job("ps", place.servers);
    cluster.add_job("worker", place.workers);
    server_options options;
    options.heartbeat_timeout = 1750ms;  // between networks, too
    options.on_lost = [&](const error& why) { tell(event::lost, 0, 0, why.sentence()); };
    // The driver reports what it does to the tasks.
    options.on_left_out = [](const error&) {};
    options.on_wait = [](const wait_change&) {};
    options.on_rollback = [](std::int64_t, std::int64_t) {};
    if (!place.shards.empty()) options.shards = {place.shards, 20};
    if (plan.how == training_by::asynchronous_servers) options.min_workers = 1;
    if (!place.is_server) {
      struct sigaction action{};
      action.sa_handler = [](int) { told_to_end = 1; };
      ::sigaction(SIGTERM, &action, nullptr);
    }
    server here(cluster, place.is_server ? "ps" : "worker", place.index, options);
    if (place.is_server) {
      const join_report ended = here.join();
      if (ended.interrupted) throw *ended.interrupted;
      return 0;
    }
    const loss_policy policy{plan.wait, plan.then == after_wait::shrink      ? loss_action::shrink
                                        : plan.then == after_wait::take_over ? loss_action::take_over
                                                                             : loss_action::stop};
    const auto on_rollback = [](std::int64_t, std::int64_t) {};
    const auto by = [&](auto how, double rate) { train(here, how, model(rate), plan.workers, steps, pause, tell); };
    switch (plan.how) {
      case training_by::synchronous_servers:
        by(parameter_server<synchronous>{.on_loss = policy, .on_rollback = on_rollback}, 0.1);
        break;
      case training_by::asynchronous_servers:
        by(parameter_server<asynchronous>{.on_loss = policy, .on_rollback = on_rollback}, 0.03);
        break;
      case training_by::all_reduce:
        by(collective{.on_loss = policy}, 0.1);
        break;
    }
    return 0;
  } catch (const std::exception& why) {
    tell(event::failed, 0, 0, why.what());
    return 1;
  }
}
