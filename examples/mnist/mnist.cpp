// A 784-H-10 sigmoid classifier of clothes, trained in one process or by a cluster: TensorFlow's distributed MNIST
// program, in typed C++. The usual run in one process reaches a test accuracy of 0.885, or ends with an error. `--help`
// lists the flags.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/data/fashion_mnist.hpp>
#include <weft/distributed.hpp>
#if defined(WEFT_HAS_MPI)
  #include <weft/distributed/collective/mpi_all_reduce.hpp>
#endif
#include <weft/queue.hpp>
#include <weft/train/progress.hpp>
#include <weft/train/supervised_session.hpp>
#include <weft/weft.hpp>

#include "../checkpoints.hpp"
#include "../event_log.hpp"
#include "../optimizers.hpp"
#include "../supervised.hpp"
#include "../test_accuracy.hpp"
#include "flags.hpp"
#include "model.hpp"
#include "report.hpp"

using namespace weft;

namespace {

constexpr double stated_accuracy = 0.885;

std::atomic<int> lost_workers{0};  // counted on the server's thread

using image_batch = tensor<float, dims<dyn<"batch">, 784>>;
using label_batch = tensor<std::int32_t, dims<dyn<"batch">>>;

/// How far a run goes and which part of the data is this process's.
struct plan_of_run {
  std::int64_t steps, steps_per_epoch, images_per_step;
  std::size_t worker = 0, workers = 1;
};

plan_of_run plan_run(const flags& f, std::size_t images, std::size_t workers) {
  if (images < workers)
    refuse("there are " + std::to_string(images) + " images for " + std::to_string(workers) +
           " workers; each needs one at least");
  // An asynchronous step is one worker's, a synchronous one takes a batch of every worker.
  const bool together = f.strategy != "local" && f.strategy != "async";
  const std::int64_t at_once = f.batch_size * (together ? static_cast<std::int64_t>(workers) : 1);
  const std::int64_t per_epoch = (static_cast<std::int64_t>(images) + at_once - 1) / at_once;
  return {f.train_steps ? f.train_steps : f.epochs * per_epoch, per_epoch, at_once,
          static_cast<std::size_t>(f.task_index), workers};
}

/// The settings that all workers must be given alike, beside the model and the seed. Their batches may differ.
std::string settings_of(const flags& f, const plan_of_run& run, std::size_t images) {
  return std::to_string(run.steps) + " steps on " + std::to_string(images) + " images" +
         (f.checkpoint_dir.empty() ? "" : ", with --checkpoint_dir");
}

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
  constexpr bool alone = std::is_same_v<Session, session>;
  const auto examples = all.images.shuffled(static_cast<std::uint64_t>(f.seed)).shard(plan.worker, plan.workers);
  const auto mine = examples.batches(static_cast<std::size_t>(f.batch_size));
  const auto batches = static_cast<std::int64_t>(mine.size());
  const progress_options shown{.steps = plan.steps,
                               .steps_per_epoch = plan.steps_per_epoch,
                               .items_per_step = plan.images_per_step,
                               .mode = f.progress};
  const char* const phase = alone ? "training steps" : "exchanging with others";
  std::vector<hook> hooks{call_every({.steps = 1}, [&](auto&, auto&) { time.mark(phase); }), stop_at_step(plan.steps),
                          std::make_shared<follow_hook>(model.cost.id(), all.at, batches, f.rate(), shown)};
  if (all.log)
    hooks.push_back(log_hook(all.log, local, model.train, f.rate(), model.cost.id(), plan.steps_per_epoch,
                             [&] { return test_accuracy(local, model, all.test_images, 1000); }));
  hooks.push_back(before_each_save([&](auto&) { all.log.flush(); }));
  const bool kept = !f.checkpoint_dir.empty();
  supervised_session run(
      s, {.checkpoints = all.kept.of(s), .save = f.checkpoints_every(), .handle_signals = alone || kept}, hooks);
  // A run that ends with an error may have saved a checkpoint too.
  struct tell_at_end {
    supervised_session<Session>* run;
    const flags& f;
    ~tell_at_end() {
      if (run) tell_saved(*run, f);
    }
  } saved{&run, f};
  // Only the chief's own position is in a checkpoint; a worker has made its part of the steps.
  if (!alone && run.restored_step() >= 0) {
    const std::int64_t made =
        run.restored_step() / (f.strategy == "async" ? static_cast<std::int64_t>(plan.workers) : 1);
    all.at.epoch = made / batches, all.at.batch = made % batches;
  }
  check_position(all.at, batches);
  if (f.is_chief()) tell_resumed(run, f);
  begin_log(all.log, run.global_step(), model.g, all.images);
  result r{.strategy = f.strategy, .workers = static_cast<std::int64_t>(plan.workers)};
  auto start = time_table::clock::now();
  std::int64_t first = 0;
  const auto begin = [&] {
    time.mark(alone ? "building the graph" : "meeting the others");
    start = time_table::clock::now();
    first = run.global_step();
  };
  const auto make = [&](auto& by, const auto&... fed) {
    time.mark("making batches");
    if constexpr (alone) {
      by(fed...);
    } else {
      by.compute(fed...);
      time.mark("computing gradients");
      by.exchange();
    }
    if (kept || all.log) time.mark("checkpoints and events");
  };
  if (queue) {
    auto step = run.prepare(fetch(model.cost, model.train.step), feed());
    queue.fill(run.threads(), examples, all.at);
    begin();
    while (!run.should_stop()) make(step);
  } else {
    auto step = run.prepare(fetch(model.cost, model.train.step), feed(model.images, model.labels));
    begin();
    make_steps(run, all.at, mine, [&](const image_batch& x, const label_batch& y) { make(step, x, y); });
  }
  r.seconds = std::chrono::duration<double>(time_table::clock::now() - start).count();
  r.steps_per_s = static_cast<double>(run.global_step() - first) / r.seconds;
  r.images_per_s = r.steps_per_s * static_cast<double>(plan.images_per_step);
  run.close();
  saved.run = nullptr;
  if (!alone) time.mark("exchanging with others");
  if (kept) time.mark("checkpoints and events");
  end_by_signal(run, f, all.log);
  r.lost = lost_workers;
  r.final_cost = all.at.cost;
  if (!f.is_chief()) return r;
  r.test_accuracy = test_accuracy(local, model, all.test_images, 1000);
  time.mark("testing");
  all.log.scalar("test/accuracy", r.test_accuracy, run.global_step());
  all.log.close();
  if (all.log) time.mark("checkpoints and events");
  return r;
}

void run_alone(const flags& f) {
  time_table time;
  surroundings all(f);
  time.mark("reading the images");
  const plan_of_run plan = plan_run(f, all.images.size(), 1);
  example_queue queue(f);
  two_layers model(f, plan.steps, f.place(), queue.source());
  session s{model.g, {.threads = static_cast<int>(f.threads), .device = f.place()}};
  report(f, train(f, plan, s, s, model, all, queue, time), time);
}

cluster_spec cluster_of(const flags& f) {
  cluster_spec cluster;
  if (!f.ps_hosts.empty()) cluster.add_job("ps", f.ps_hosts);
  cluster.add_job("worker", f.worker_hosts);
  return cluster;
}

/// Says at once that a worker is gone, or back: a run may go on without it.
void tell_change(const worker_change& change) {
  if (change.failed) ++lost_workers;
  if (change.is_back && lost_workers > 0) --lost_workers;
  const char* const over_the_bar = ::isatty(STDERR_FILENO) ? "\r\x1b[K" : "";
  std::fprintf(stderr, "%s%s\n", over_the_bar, to_string(change).c_str());
}

/// Says at once that a process was rejected that may be a task of this run, with another secret or certificate.
void tell_rejected(const error& why) {
  const char* const over_the_bar = ::isatty(STDERR_FILENO) ? "\r\x1b[K" : "";
  std::fprintf(stderr, "%srejected: %s\n", over_the_bar, why.sentence());
}

server_options options_of(const flags& f) {
  server_options options = f.environment ? f.environment->complete() : server_options();
  options.secret = f.secret;
  options.tls = f.tls;
  options.on_worker_change = tell_change;
  if (f.min_workers) options.min_workers = static_cast<int>(*f.min_workers);
  if (f.heartbeat_timeout)
    options.heartbeat_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(*f.heartbeat_timeout * 1000));
  options.on_rejected = tell_rejected;
  return options;
}

void serve(const flags& f) {
  server here(cluster_of(f), f.job_name, static_cast<int>(f.task_index), options_of(f));
  const join_report ended = here.join();
  if (ended.signal != 0) {
    here.stop();
    end_by_signal(ended.signal);
  }
  if (ended.interrupted) throw *ended.interrupted;
  std::string lost;
  for (const std::string& each : ended.lost) lost += (lost.empty() ? "" : "; ") + each;
  if (ended.finished.empty()) throw error(error_code::unavailable, here.name(), "no worker has finished: " + lost);
  if (!lost.empty()) std::fprintf(stderr, "not all workers have finished: %s\n", lost.c_str());
}

template <class Strategy>
void train_replica(const flags& f, const plan_of_run& plan, const two_layers& model, server& here, Strategy strategy,
                   surroundings& all, example_queue& queue, time_table& time) {
  replicated_session s(model.g, here, strategy, {.threads = static_cast<int>(f.threads), .device = f.place()},
                       std::chrono::seconds(60), settings_of(f, plan, all.images.size()));
  const result r = train(f, plan, s, s.local(), model, all, queue, time);
  if (f.is_chief()) report(f, r, time);
}

void work(const flags& f) {
  time_table time;
  // First of all the address: where it is taken there is no need to read anything.
  server here(cluster_of(f), f.job_name, static_cast<int>(f.task_index), options_of(f));
  surroundings all = [&] {
    try {
      return surroundings(f);
    } catch (const error& why) {
      here.set_failure(why);  // the others are told too
      throw;
    }
  }();
  time.mark("reading the images");

  const plan_of_run plan = plan_run(f, all.images.size(), static_cast<std::size_t>(here.cluster().num_tasks("worker")));
  example_queue queue(f);
  two_layers model(f, plan.steps, variable_placement(replica_device_setter(here.cluster())), queue.source());
  time.mark("building the graph");
  if (f.strategy == "async")
    return train_replica(f, plan, model, here, parameter_server<asynchronous>{}, all, queue, time);
  if (f.strategy == "sync")
    return train_replica(f, plan, model, here, parameter_server<synchronous>{}, all, queue, time);
#if defined(WEFT_HAS_MPI)
  if (f.strategy == "mpi") return train_replica(f, plan, model, here, mpi_collective{}, all, queue, time);
#endif
  train_replica(f, plan, model, here, collective{}, all, queue, time);
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
