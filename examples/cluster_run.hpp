// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/distributed.hpp>
#if defined(WEFT_HAS_MPI)
  #include <weft/distributed/collective/mpi_all_reduce.hpp>
  #include <weft/distributed/training/exchanges.hpp>
#endif
#include <weft/train/progress.hpp>
#include <weft/train/supervised_session.hpp>
#include <weft/weft.hpp>

#include "batches_of_replicas.hpp"
#include "cluster_flags.hpp"
#include "report.hpp"
#include "supervised.hpp"

/// The parts of a run that examples share: they train in one process or on a cluster.

/// The workers that are lost and that no other process has followed. Written on the server's thread.
class lost_worker_set {
 public:
  void note(const weft::worker_change& change) {
    std::lock_guard lock(mutex_);
    if (change.is_back)
      indices_.erase(change.worker.index);
    else if (change.failed)
      indices_.insert(change.worker.index);
  }
  std::int64_t size() const {
    std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(indices_.size());
  }

 private:
  mutable std::mutex mutex_;
  std::set<int> indices_;
};
inline lost_worker_set lost_workers;

/// How far a run goes and which part of the data is this process's.
struct plan_of_run {
  std::int64_t steps, steps_per_epoch, images_per_step;
  std::size_t worker = 0, workers = 1;
};

inline plan_of_run plan_run(const cluster_flags& f, std::size_t images, std::size_t workers) {
  if (images < workers)
    refuse("there are " + std::to_string(images) + " images for " + std::to_string(workers) +
           " workers, but each worker needs at least one");
  // An asynchronous step is one worker's, a synchronous one takes a batch of every worker.
  const bool together = f.strategy != "local" && !f.is_asynchronous();
  const std::int64_t used = static_cast<std::int64_t>(workers) - (f.has_backups() ? f.bound() : 0);
  const std::int64_t at_once = f.batch_size * (together ? used : 1);
  const std::int64_t per_epoch = (static_cast<std::int64_t>(images) + at_once - 1) / at_once;
  return {f.train_steps ? f.train_steps : f.epochs * per_epoch, per_epoch, at_once,
          static_cast<std::size_t>(f.task_index), workers};
}

/// The settings that all workers must be given alike, beside the model and the seed. Their batches may differ.
inline std::string settings_of(const cluster_flags& f, const plan_of_run& run, std::size_t images) {
  return std::to_string(run.steps) + " steps on " + std::to_string(images) + " images" +
         (f.checkpoint_dir.empty() ? "" : ", with --checkpoint_dir");
}

// ---- a task of a cluster ----

inline weft::cluster_spec cluster_of(const cluster_flags& f) {
  weft::cluster_spec cluster;
  if (!f.ps_hosts.empty()) cluster.add_job("ps", f.ps_hosts);
  cluster.add_job("worker", f.worker_hosts);
  return cluster;
}

/// Says at once that a worker is gone, or back: a run may go on without it.
inline void tell_change(const weft::worker_change& change) {
  lost_workers.note(change);
  const char* const over_the_bar = ::isatty(STDERR_FILENO) ? "\r\x1b[K" : "";
  std::fprintf(stderr, "%s%s\n", over_the_bar, to_string(change).c_str());
}

/// Reports that the run waits for other tasks, or continues.
inline void tell_wait(const weft::wait_change& change) {
  const char* const over_the_bar = ::isatty(STDERR_FILENO) ? "\r\x1b[K" : "";
  std::fprintf(stderr, "%s%s\n", over_the_bar, to_string(change).c_str());
}

/// Says at once that a process was rejected that may be a task of this run, with another secret or certificate.
inline void tell_rejected(const weft::error& why) {
  const char* const over_the_bar = ::isatty(STDERR_FILENO) ? "\r\x1b[K" : "";
  std::fprintf(stderr, "%srejected: %s\n", over_the_bar, why.sentence());
}

inline weft::server_options options_of(const cluster_flags& f) {
  weft::server_options options = f.environment ? f.environment->complete() : weft::server_options();
  options.secret = f.secret;
  options.tls = f.tls;
  options.on_worker_change = tell_change;
  options.on_wait = tell_wait;
  if (!f.shard_dir.empty()) options.shards = {.folder = f.shard_dir, .every_steps = f.shard_steps.value_or(100)};
  if (f.min_workers) options.min_workers = static_cast<int>(*f.min_workers);
  if (f.heartbeat_timeout)
    options.heartbeat_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(*f.heartbeat_timeout * 1000));
  options.on_rejected = tell_rejected;
  return options;
}

inline void serve(const cluster_flags& f) {
  weft::server here(cluster_of(f), f.job_name, static_cast<int>(f.task_index), options_of(f));
  const weft::join_report ended = here.join();
  if (ended.signal != 0) {
    here.stop();
    end_by_signal(ended.signal);
  }
  if (ended.interrupted) throw *ended.interrupted;
  std::string lost;
  for (const std::string& each : ended.lost) lost += (lost.empty() ? "" : "; ") + each;
  if (ended.finished.empty())
    throw weft::error(weft::error_code::unavailable, here.name(), "no worker finished: " + lost);
  if (!lost.empty()) std::fprintf(stderr, "not all workers finished: %s\n", lost.c_str());
}

/// Returns what `read()` does. Where that throws, the other tasks are told why this one ends.
template <class Read>
auto read_or_tell(weft::server& here, Read read) {
  try {
    return read();
  } catch (const weft::error& why) {
    here.set_failure(why);
    throw;
  }
}

/// Parameter servers whose backups or staleness a flag gives.
template <weft::consistency Mode>
struct servers_of_flags {
  static constexpr weft::consistency mode = Mode;
  weft::consistency_model model;
  weft::loss_policy on_loss = {};
  std::function<void(std::int64_t from, std::int64_t to)> on_rollback = {};
};

/// Calls `train(strategy)` with that of the flags, which is not local.
template <class Train>
void with_strategy(const cluster_flags& f, Train train) {
  using namespace weft;
  if (f.is_asynchronous())
    return train(
        servers_of_flags<asynchronous>{{asynchronous, 0, f.strategy == "async" ? -1 : f.bound()}, f.loss_policy()});
  if (has_servers(f))
    return train(servers_of_flags<synchronous>{{synchronous, f.has_backups() ? f.bound() : 0}, f.loss_policy()});
#if defined(WEFT_HAS_MPI)
  if (f.strategy == "mpi") return train(mpi_collective{});
#endif
  train(collective{.on_loss = f.loss_policy()});
}

// ---- a run ----

/// The graph, the cost and the schedule of a run.
struct run_parts {
  const weft::graph& g;
  const training& train;
  weft::value cost;
  std::int64_t batches;  ///< of this process, in an epoch
  run_position& at;
  kept_run& kept;
  event_log& log;
  time_table& time;
  std::function<double(std::int64_t step)> test_accuracy;  ///< of what is learnt so far; in the chief alone
  std::function<void(std::int64_t step)> log_images;
  std::vector<weft::hook> hooks{};  ///< beside those of every run
};

/// Trains by a session, or a replicated session, whose own session is `local`. `loop(run, begin, make)` prepares a
/// step, calls begin(), and makes each step by make(step, operands...), or make(step, batches) with a function of the
/// replica, until the run is to stop.
template <class Session, class Loop>
result train_supervised(const cluster_flags& f, const plan_of_run& plan, Session& s, weft::session& local,
                        const run_parts& p, Loop loop) {
  using namespace weft;
  constexpr bool alone = std::is_same_v<Session, session>;
  const progress_options shown{.steps = plan.steps,
                               .steps_per_epoch = plan.steps_per_epoch,
                               .items_per_step = plan.images_per_step,
                               .mode = f.progress};
  const char* const phase = alone ? "training steps" : "exchanging with others";
  std::vector<hook> hooks{call_every({.steps = 1}, [&](auto&, auto&) { p.time.mark(phase); }), stop_at_step(plan.steps),
                          std::make_shared<follow_hook>(p.cost, p.at, p.batches, f.rate(), shown)};
  hooks.insert(hooks.end(), p.hooks.begin(), p.hooks.end());
  if (p.log) hooks.push_back(log_hook(p.log, local, p.train, f.rate(), p.cost, plan.steps_per_epoch, p.test_accuracy));
  // A run that survives losses is where the number of its next step says.
  const auto follow_step = [&] {
    if constexpr (!alone)
      if (f.survives_losses()) p.at.epoch = s.next_step() / p.batches, p.at.batch = s.next_step() % p.batches;
  };
  hooks.push_back(before_each_save([&](auto&) {
    follow_step();
    p.log.flush();
  }));
  const bool kept = !f.checkpoint_dir.empty();
  supervised_session run(
      s, {.checkpoints = p.kept.of(s), .save = f.checkpoints_every(), .handle_signals = alone || kept}, hooks);
  // Only the chief's own position is in a checkpoint; a worker has made its part of the steps.
  if (!alone && run.restored_step() >= 0) {
    const std::int64_t made = run.restored_step() / (f.is_asynchronous() ? static_cast<std::int64_t>(plan.workers) : 1);
    p.at.epoch = made / p.batches, p.at.batch = made % p.batches;
  }
  follow_step();
  check_position(p.at, p.batches);
  // A run that ends with an error may have saved a checkpoint too.
  struct tell_at_end {
    supervised_session<Session>* run;
    const cluster_flags& f;
    ~tell_at_end() {
      if (run) tell_saved(*run, f);
    }
  } saved{&run, f};
  if (f.is_chief()) tell_resumed(run, f);
  p.log.begin(run.global_step(), p.g);
  if (p.log) p.log_images(run.global_step());
  result r{.strategy = f.strategy, .workers = static_cast<std::int64_t>(plan.workers)};
  auto start = time_table::clock::now();
  std::int64_t first = 0;
  bool has_begun = false;
  const auto begin = [&] {
    if (std::exchange(has_begun, true)) return;
    p.time.mark(alone ? "building the graph" : "connecting to the others");
    start = time_table::clock::now();
    first = run.global_step();
  };
  // A lost task is waited for, and the steps of the others with it.
  const std::chrono::milliseconds patience = f.loss_policy().wait + std::chrono::seconds(60);
  const auto make = [&](auto& by, auto&&... fed) {
    p.time.mark("making batches");
    if constexpr (alone) {
      by(fed...);
    } else if constexpr ((is_batches_of_replicas<std::remove_cvref_t<decltype(fed)>> || ...)) {
      by.run(fed..., patience);
    } else {
      by.compute(fed...);
      p.time.mark("computing gradients");
      by.exchange();
    }
    if (kept || p.log) p.time.mark("checkpoints and events");
  };
  const auto make_steps = [&] { loop(run, begin, make); };
  make_steps();
  r.seconds = std::chrono::duration<double>(time_table::clock::now() - start).count();
  r.steps_per_s = static_cast<double>(run.global_step() - first) / r.seconds;
  r.images_per_s = r.steps_per_s * static_cast<double>(plan.images_per_step);
  if constexpr (alone)
    run.close();
  else
    run.close(patience + std::chrono::seconds(60), make_steps);
  saved.run = nullptr;
  if (!alone) p.time.mark("exchanging with others");
  if (kept) p.time.mark("checkpoints and events");
  end_by_signal(run, f, p.log);
  r.lost = lost_workers.size();
  r.final_cost = p.at.cost;
  if (!f.is_chief()) return r;
  r.test_accuracy = p.test_accuracy(run.global_step());
  p.time.mark("testing");
  p.log.scalar("test/accuracy", r.test_accuracy, run.global_step());
  p.log.close();
  if (p.log) p.time.mark("checkpoints and events");
  return r;
}
