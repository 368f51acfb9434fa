// SPDX-License-Identifier: BSL-1.0
// A 784-H-10 sigmoid classifier of clothes, trained in one process or by a cluster: TensorFlow's distributed MNIST
// program, in typed C++. The usual run in one process reaches a test accuracy of 0.885, or ends with an error. `--help`
// lists the flags.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weft/data/fashion_mnist.hpp>
#include <weft/distributed.hpp>
#include <weft/queue.hpp>
#include <weft/weft.hpp>

#include "../checkpoints.hpp"
#include "../cluster_run.hpp"
#include "../event_log.hpp"
#include "../optimizers.hpp"
#include "../report.hpp"
#include "../supervised.hpp"
#include "../test_accuracy.hpp"
#include "flags.hpp"
#include "model.hpp"

using namespace weft;

namespace {

constexpr double stated_accuracy = 0.885;

using image_batch = tensor<float, dims<dyn<"batch">, 784>>;
using label_batch = tensor<std::int32_t, dims<dyn<"batch">>>;

void report(const flags& f, const result& r, const time_table& time) {
  print(r, stdout);
  time.print(stdout);
  if (!f.json.empty()) write_json(r, f.json);
  check_output();
  check_accuracy(
      r.test_accuracy,
      f.accuracy_to_reach(usual_flags(), f.strategy == "local" && f.hidden_units >= 100 ? stated_accuracy : 0));
}

run_settings settings_of(const flags& f) {
  run_settings all = f.settings("mnist");
  all.emplace_back("hidden_units", std::to_string(f.hidden_units));
  return all;
}

/// Data, and what is kept of a run beside its result.
struct surroundings {
  run_position at;
  kept_run kept;  // what is wrong with a folder is told before anything is read
  event_log log;
  data::labelled_images<784> images, test_images;

  explicit surroundings(const flags& f)
      : kept(f.checkpoint_dir, f.resume, settings_of(f), at, f.is_chief()),
        log(f.is_chief() ? f.log_dir : ""),
        images(data::fashion_mnist("train", f.data_dir)),
        test_images(data::fashion_mnist("test", f.data_dir)) {}
};

/// How TensorFlow's programs fed a graph: examples go into a queue row by row, and a step takes a batch of them out.
class example_queue {
 public:
  explicit example_queue(const flags& f)
      : batch_size_(f.batch_size), used_(f.input == "queue"), threads_(static_cast<std::size_t>(f.input_threads)) {}

  /// The input that the model is to train on; nothing where steps are fed.
  training_input::source source() {
    if (!used_) return {};
    return [this](graph& g) {
      g.set(dyn<"dequeued">, batch_size_);
      auto [images, labels] = examples_.dequeue_many<dyn<"dequeued">>(g, std::chrono::minutes(1));
      return training_input{images, labels};
    };
  }

  explicit operator bool() const { return used_; }

  /// Threads fill it from `at` on, until the coordinator stops them: one in the order of a loop; of several, each reads
  /// a share of the examples, and batches come as they are ready.
  template <class Examples>
  void fill(coordinator& threads, const Examples& examples, const run_position& at) {
    const std::size_t count = std::min(threads_, examples.size());
    std::vector<std::function<void()>> readers;
    for (std::size_t i = 0; i < count; ++i) {
      const auto batches = examples.shard(i, count).batches(static_cast<std::size_t>(batch_size_));
      const auto first =
          static_cast<std::uint64_t>(at.epoch) * batches.size() + static_cast<std::uint64_t>(at.batch) / count;
      const auto place = batches.repeat().from({0, first});
      const auto next = std::make_shared<decltype(place.begin())>(place.begin());
      readers.push_back([this, next] {
        const auto& [images, labels] = **next;
        examples_.enqueue_many(std::chrono::hours(1), images, labels);
        ++*next;
      });
    }
    queue_runner(examples_, std::move(readers)).start(threads);
  }

 private:
  std::int64_t batch_size_;
  bool used_;
  std::size_t threads_;
  fifo_queue<tensor<float, dims<784>>, std::int32_t> examples_{3 * batch_size_, {.name = "examples"}};
};

/// Trains by a session, or a replicated session, whose own session is `local`.
template <class Session>
result train(const flags& f, const plan_of_run& plan, Session& s, session& local, const two_layers& model,
             surroundings& all, example_queue& queue, time_table& time) {
  const auto shuffled = all.images.shuffled(static_cast<std::uint64_t>(f.seed));
  const auto batches_of = [&](std::size_t worker) {
    return shuffled.shard(worker, plan.workers).batches(static_cast<std::size_t>(f.batch_size));
  };
  const auto examples = shuffled.shard(plan.worker, plan.workers);
  const auto mine = batches_of(plan.worker);
  batches_of_replicas of_replicas(batches_of);
  const run_parts parts{
      .g = model.g,
      .train = model.train,
      .cost = model.cost.id(),
      .batches = static_cast<std::int64_t>(mine.size()),
      .at = all.at,
      .kept = all.kept,
      .log = all.log,
      .time = time,
      .test_accuracy = [&](std::int64_t) { return test_accuracy(local, model, all.test_images, 1000); },
      .log_images = [&](std::int64_t step) { log_images(all.log, all.images, step); }};
  return train_supervised(f, plan, s, local, parts, [&](auto& run, auto begin, auto make) {
    if (queue) {
      auto step = run.prepare(fetch(model.cost, model.train.step), feed());
      queue.fill(run.threads(), examples, all.at);
      begin();
      while (!run.should_stop()) make(step);
    } else {
      auto step = run.prepare(fetch(model.cost, model.train.step), feed(model.images, model.labels));
      begin();
      if constexpr (!std::is_same_v<Session, session>)
        if (f.survives_losses()) {
          while (!run.should_stop()) make(step, of_replicas);
          return;
        }
      make_steps(run, all.at, mine, [&](const image_batch& x, const label_batch& y) { make(step, x, y); });
    }
  });
}

void run_alone(const flags& f) {
  time_table time;
  surroundings all(f);
  time.mark("reading the images");
  const plan_of_run plan = plan_run(f, all.images.size(), 1);
  example_queue queue(f);
  two_layers model(f, f.recipe(plan.steps, plan.steps_per_epoch), f.place(), queue.source());
  session s{model.g, {.threads = static_cast<int>(f.threads), .device = f.place()}};
  report(f, train(f, plan, s, s, model, all, queue, time), time);
}

void work(const flags& f) {
  time_table time;
  // First of all the address: where it is taken there is no need to read anything.
  server here(cluster_of(f), f.job_name, static_cast<int>(f.task_index), options_of(f));
  surroundings all = read_or_tell(here, [&] { return surroundings(f); });
  time.mark("reading the images");

  const plan_of_run plan = plan_run(f, all.images.size(), static_cast<std::size_t>(here.cluster().num_tasks("worker")));
  example_queue queue(f);
  two_layers model(
      f, f.recipe(plan.steps, plan.steps_per_epoch),
      variable_placement(replica_device_setter(here.cluster(), {.strategy = ps_strategy::greedy_by_byte_size})),
      queue.source());
  time.mark("building the graph");
  with_strategy(f, [&](auto strategy) {
    replicated_session s(model.g, here, strategy, {.threads = static_cast<int>(f.threads), .device = f.place()},
                         std::chrono::seconds(60), settings_of(f, plan, all.images.size()));
    const result r = train(f, plan, s, s.local(), model, all, queue, time);
    if (f.is_chief()) report(f, r, time);
  });
}

}  // namespace

int main(int argc, char** argv) try {
  const auto f = parse_flags(argc, argv);
  if (!f) {
    check_output();
    return 0;
  }
  if (!f->json.empty() && f->is_chief()) check_writable(f->json);
  add_update_rules();
  if (f->strategy == "local")
    run_alone(*f);
  else if (f->job_name == "ps")
    serve(*f);
  else
    work(*f);
  check_output();
} catch (...) {
  return tell_failure();
}
