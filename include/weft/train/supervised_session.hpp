// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/graph/variables.hpp>
#include <weft/session/session.hpp>
#include <weft/train/coordinator.hpp>
#include <weft/train/hooks.hpp>
#include <weft/train/signals.hpp>

namespace weft {

/// How a run is saved across processes. saved_in() returns one for a saver; without functions, nothing is saved.
struct run_checkpoints {
  /// Restores the latest checkpoint and returns its step, or -1 if there is none.
  std::function<std::int64_t()> restore;
  /// Writes a checkpoint of this step. It can return before the checkpoint is on the disk.
  std::function<void(std::int64_t step)> save;
  /// Waits until all checkpoints are on the disk.
  std::function<void(deadline)> flush;
  /// Prevents other runs from writing to the same place. Called before anything else, if this run is the writer.
  std::function<void()> lock{};
  /// Releases the write lock: another process is now the writer.
  std::function<void()> unlock{};
};

/// Options of a supervised_session.
struct run_options {
  run_checkpoints checkpoints{};
  every save{.time = std::chrono::minutes(10)};  ///< a last checkpoint is always written at the end
  bool is_chief = true;                          ///< writes checkpoints; in a cluster, only the chief does
  bool handle_signals = true;                    ///< SIGINT and SIGTERM end the run after the current step
};

template <class Run, class Step, class Fetches>
class supervised_step;

/// A run that survives its process (tf.train.Supervisor, tf.train.MonitoredTrainingSession). It starts from the latest
/// checkpoint, if there is one, calls hooks around each step and writes checkpoints. It ends, with a last checkpoint,
/// when a hook requests it, on SIGINT and SIGTERM, or with close().
///
///     session s(g);
///     supervised_session run(s, {.checkpoints = ...},
///                            {stop_at_step(10000), log_every({.steps = 100}, {{loss.id(), "cost"}})});
///     auto step = run.prepare(fetch(loss, train), feed(images, labels));
///     while (!run.should_stop()) step(x, y);
///     run.close();
///
/// Session is a session or a replicated_session, which must outlive the run. A step's exceptions are thrown to the
/// caller. A run that is destroyed without close() writes no last checkpoint. Not thread-safe.
///
/// In a cluster whose workers run in lockstep, a signal to any worker ends all runs with the same step: should_stop()
/// returns true after the next one. The last checkpoint is therefore of a complete step, and a run that continues from
/// it equals an uninterrupted one. close() throws unavailable in workers that have received no signal. If training
/// survives the loss of a worker (a loss policy, or backups), the others continue instead: the worker makes at least
/// two more steps, trains for half a second and leaves, unless all workers have received the signal by then. In
/// asynchronous training a worker leaves immediately, and the chief also writes a checkpoint when the loss of a worker
/// ends its run.
///
/// If a step fails because another task is gone and this process has received a signal, the step does not throw: it
/// returns its results, updates nothing and calls no hooks.
template <class Session>
class supervised_session final : private run_control {
 public:
  /// Restores the latest checkpoint or keeps the initial values, and calls the hooks' begin(). Throws the errors of
  /// restoring and of the hooks.
  explicit supervised_session(Session& s, run_options options = {}, std::vector<hook> hooks = {})
      : session_(s), options_(std::move(options)), hooks_(std::move(hooks)), saved_(options_.save) {
    for (const hook& h : hooks_)
      if (!h)
        throw error(
            error_code::invalid_argument, "supervised_session",
            "a hook is empty: create it with stop_at_step(), log_every() or another function of train/hooks.hpp");
    if (options_.handle_signals) signals_.emplace();
    was_chief_ = is_chief();
    if (was_chief_ && options_.checkpoints.lock && !joins_others()) options_.checkpoints.lock();
    const std::int64_t restored = options_.checkpoints.restore ? options_.checkpoints.restore() : -1;
    first_step_ = restored;
    if (restored >= 0) steps_ = last_saved_ = on_disk_ = restored;
    saved_.begin(global_step());
    for (const hook& h : hooks_) h->begin(*this);
  }
  template <class = void>
  explicit supervised_session(Session&, ...) = delete;  // run_options: checkpoints, save, is_chief, handle_signals
  supervised_session(const supervised_session&) = delete;
  supervised_session& operator=(const supervised_session&) = delete;

  /// The step of the restored checkpoint; -1 if there was none.
  std::int64_t restored_step() const { return first_step_; }
  /// The number of updates, including those before the restored checkpoint; on a cluster, of all workers.
  std::int64_t global_step() const override {
    if constexpr (is_replicated)
      return session_.global_step();
    else
      return steps_;
  }

  /// Returns true if a hook, a thread, a signal or close() has ended the run.
  bool should_stop() {
    if (!stopped_) look_for_signals();
    return stopped_ || (!repeats_ && coordinator_.should_stop());
  }
  void request_stop(const std::string& reason) override {
    if (stopped_) return;
    stopped_ = true;
    reason_ = reason;
  }
  void stop_without_saving(const std::string& reason) override {
    saves_ = false;
    request_stop(reason);
  }
  /// The reason why the run ends; empty while it continues.
  const std::string& stop_reason() const { return reason_; }
  /// The step of the last checkpoint that is known to be on the disk, as after close(); -1 if there is none, and in
  /// workers other than the chief.
  std::int64_t saved_step() const { return is_chief() ? on_disk_ : -1; }
  /// The signal that ended the run, for a program's exit status; 0 if none did.
  int signal() const { return signals_ ? signals_->received() : 0; }

  /// Threads that end with the run, such as readers and evaluators. A thread's exception ends the run; close() throws
  /// it.
  coordinator& threads() { return coordinator_; }

  void save_checkpoint() override {
    if (!saves_ || !is_chief() || !options_.checkpoints.save || last_saved_ == global_step()) return;
    for (const hook& h : hooks_) h->before_save(*this);
    options_.checkpoints.save(global_step());
    last_saved_ = global_step();  // in the meantime other workers can have made updates
    saved_.begin(last_saved_);
  }

  /// Plans a step. A training step must fetch the nodes that hooks watch: throws failed_precondition with the names of
  /// missing ones.
  template <class... F, class... P>
  [[nodiscard]] auto prepare(const fetch_list<F...>& fetches, const feed_list<P...>& feeds) {
    return supervised_step<supervised_session, decltype(session_.prepare(fetches, feeds)), fetch_list<F...>>(
        *this, session_.prepare(fetches, feeds), fetches);
  }
  template <class... F>
  [[nodiscard]] auto prepare(const fetch_list<F...>& fetches) {
    return prepare(fetches, feed_list<>{});
  }

  /// Ends the run: calls the hooks' end(), writes a last checkpoint and joins the threads. The chief of a cluster
  /// writes its checkpoint, waits for the other workers, writes another checkpoint with their last updates, and leaves.
  /// The other workers report that they have finished. After a signal, a worker neither reports nor waits: it leaves,
  /// which the others treat as a loss unless all workers stop (loss_policy, server_options::min_workers), and its
  /// server stops. Throws deadline_exceeded, with the names of unfinished parts, if the deadline passes, unavailable if
  /// another worker received the signal, and the first exception of a thread or a hook; the checkpoint is written
  /// before. A second call continues with the remaining parts.
  void close(deadline until = std::chrono::seconds(120)) { end_run(until); }

  /// Like close(until), but continues if parameter servers are restored while this worker reports that it has finished,
  /// and the run returns to an earlier step. should_stop() is then false again, and `make_steps()` must run steps until
  /// it is true; close(until) throws aborted instead. The threads of the run have ended by then.
  template <class MakeSteps>
  void close(deadline until, MakeSteps make_steps) {
    for (;;) {
      const std::int64_t end = global_step();
      try {
        return end_run(until);
      } catch (const error& problem) {
        if (problem.code() != error_code::aborted || global_step() >= end) throw;
      }
      stopped_ = ended_ = false;
      repeats_ = true;
      make_steps();
    }
  }

 private:
  template <class Run, class Step, class Fetches>
  friend class supervised_step;
  static constexpr const char* others_signal = "another worker has received a signal";
  static constexpr bool is_replicated = requires(Session& s) { s.local(); };

  void end_run(deadline until) {
    if (closed_) return;
    if (!stopped_) look_for_signals();
    request_stop("close()");
    coordinator_.request_stop();
    std::exception_ptr why;
    const auto attempt = [&](auto part) {
      try {
        part();
      } catch (...) {
        if (!why) why = std::current_exception();
      }
    };
    attempt([&] { coordinator_.join(until); });
    if (!std::exchange(ended_, true))
      for (const hook& h : hooks_) attempt([&] { h->end(*this); });
    if (why) {
      attempt([&] { save_checkpoint(); });
      attempt([&] { flush(until); });
      std::rethrow_exception(why);
    }
    save_checkpoint();
    if constexpr (is_replicated) leave_cluster(until);
    flush(until);
    closed_ = true;
  }

  bool is_chief() const override {
    if constexpr (is_replicated)
      return options_.is_chief && session_.is_chief();
    else
      return options_.is_chief;
  }
  const graph& graph_of_session() const {
    if constexpr (is_replicated)
      return session_.local().of();
    else
      return session_.of();
  }

  void flush(deadline until) {
    if (options_.checkpoints.flush) options_.checkpoints.flush(until);
    on_disk_ = last_saved_;
  }

  void look_for_signals() {
    const int number = signal();
    if constexpr (is_replicated)
      if constexpr (Session::keeps_in_step) {
        if (session_.all_stop())
          request_stop(number != 0 ? name_of_signal(number) : others_signal);
        else if (number != 0)
          session_.request_stop();
        return;
      }
    if (number != 0) request_stop(name_of_signal(number));
  }

  void leave_cluster(deadline until) {
    const bool others_stop = signal() == 0 && reason_ == others_signal;
    if (signal() == 0 && !others_stop && finish_with_others(until)) return;
    flush(until);  // before this worker leaves, because parameter servers wait for it
    session_.leave(others_stop ? std::string(others_signal) : str_cat({"stopped by ", name_of_signal(signal())}));
    if (!others_stop) return;
    closed_ = true;
    throw error(error_code::unavailable, "supervised_session",
                {others_signal, " and has ended the run after step ", global_step()});
  }

  /// Returns false if a signal has arrived here and another task has left, probably after the same signal.
  bool finish_with_others(deadline until) {
    try {
      // A worker that is not the chief yet can become the chief before the end.
      if ((is_chief() || Session::keeps_in_step) && options_.checkpoints.save)
        session_.finish(until, [this] { save_checkpoint(); });
      else
        session_.finish(until);
      return true;
    } catch (const error& problem) {
      if (!ends_after(problem)) throw;
      return false;
    }
  }

  /// Handles a failed exchange with other tasks. Returns true if a task is gone and this run has received a signal and
  /// must end in any case: all processes may have received it.
  bool ends_after(const error& problem) {
    if (problem.code() != error_code::unavailable) return false;
    if constexpr (Session::keeps_in_step) saves_ = false;  // objects added to the saver can be a step ahead
    try {
      save_checkpoint();
      flush(std::chrono::seconds(60));
    } catch (const error&) {
      // The first error is more informative; close() tries again.
    }
    if (signal() != 0) request_stop(name_of_signal(signal()));
    return signal() != 0;
  }

  void before_step() {
    if (closed_ || stopped_)
      throw error(error_code::failed_precondition, "supervised_session",
                  {"a step was called after the run ended (", reason_, "): check should_stop() before each step"});
    look_for_signals();
    for (const hook& h : hooks_) h->before_step(*this);
  }
  /// Returns true if other workers are already training: the previous chief writes until they have accepted this
  /// process, and the first save() of this one locks.
  bool joins_others() const {
    if constexpr (requires { session_.view(); })
      return session_.view().epoch > 1;
    else
      return false;
  }
  void after_step(const std::vector<step_report::scalar>& scalars, bool trained) {
    if (std::exchange(was_chief_, is_chief()) && !was_chief_ && options_.checkpoints.unlock)
      options_.checkpoints.unlock();
    if (trained) ++steps_;
    const step_report report(global_step(), scalars, trained);
    for (const hook& h : hooks_) h->after_step(*this, report);
    if (trained && saved_.is_over(global_step())) save_checkpoint();
  }

  Session& session_;
  run_options options_;
  std::vector<hook> hooks_;
  detail::interval saved_;
  std::optional<stop_signals> signals_;
  coordinator coordinator_;
  std::int64_t steps_ = 0, first_step_ = -1, last_saved_ = -1, on_disk_ = -1;
  bool saves_ = true, stopped_ = false, ended_ = false, closed_ = false, was_chief_ = false;
  bool repeats_ = false;  // steps that were lost at the end are run again
  std::string reason_;
};
template <class Session>
supervised_session(Session&, run_options = {}, std::vector<hook> = {}) -> supervised_session<Session>;

namespace detail {

/// Returns true if running these nodes trains a variable.
inline bool any_trains(const graph& g, std::vector<std::uint32_t> targets) {
  while (!targets.empty()) {
    const std::uint32_t target = targets.back();
    const graph_node& n = g[target];
    targets.pop_back();
    if (is_training_update(g, target)) return true;
    for (std::size_t i = 0; i < n.control.size(); ++i) targets.push_back(n.control[i]);
  }
  return false;
}

}  // namespace detail

/// A step of a supervised run: called like the session's step, with the hooks around it.
template <class Run, class Step, class... F>
class supervised_step<Run, Step, fetch_list<F...>> {
 public:
  supervised_step(Run& run, Step step, const fetch_list<F...>& fetches) : run_(run), step_(std::move(step)) {
    std::vector<std::uint32_t> targets;
    std::apply([&](const auto&... f) { (note(f, targets), ...); }, fetches.fetched);
    trains_ = detail::any_trains(run_.graph_of_session(), std::move(targets));
    if (trains_) check_watched();
  }

  /// Throws the errors of the step and the hooks, and failed_precondition after the run's end.
  template <class... X>
  auto operator()(const X&... x) {
    run_.before_step();
    return reported([&] { return step_(x...); });
  }

  /// The two halves of a replicated session's step.
  template <class... X>
    requires requires(Step& s) { s.exchange(); }
  auto compute(const X&... x) {
    run_.before_step();
    return step_.compute(x...);
  }
  template <class... Until>
    requires requires(Step& s) { s.exchange(); }
  auto exchange(const Until&... until) {
    return reported([&] { return step_.exchange(until...); });
  }

  /// A step of a replicated session that gets its batch from a function of the replica.
  template <class Batches, class... Until>
    requires requires(Step& s) { s.exchange(); }
  auto run(Batches&& batches, const Until&... until) {
    run_.before_step();
    return reported([&] { return step_.run(batches, until...); });
  }

  std::string explain() const { return step_.explain(); }

 private:
  template <class Make>
  auto reported(const Make& make) {
    using results_type = std::remove_cvref_t<decltype(make())>;
    std::optional<results_type> results;
    if constexpr (requires { step_.fetched(); }) {
      try {
        results.emplace(make());
      } catch (const error& problem) {
        if (!run_.ends_after(problem)) throw;
        return results_type(step_.fetched());
      }
    } else {
      results.emplace(make());
    }
    report(*results);
    return results_type(std::move(*results));
  }

  template <class X>
  void note(const X& fetched, std::vector<std::uint32_t>& targets) {
    if constexpr (std::is_same_v<X, effect>)
      targets.push_back(fetched.erased().id().node);
    else if constexpr (is_scalar<X>)
      scalars_.push_back({fetched.id(), 0});
  }
  template <class X>
  static constexpr bool is_scalar = [] {
    if constexpr (is_node<X>)
      return dims_t<X>::rank == 0 && detail::is_number<value_t<X>>;
    else
      return false;
  }();

  void check_watched() const {
    for (const hook& h : run_.hooks_)
      for (const auto& [of, name] : h->watched()) {
        bool found = false;
        for (const step_report::scalar& s : scalars_) found |= s.of == of;
        if (!found)
          throw error(error_code::failed_precondition, "supervised_session",
                      {"a hook watches ", name, " (", run_.graph_of_session()[of.node].name,
                       "), which this step does not fetch: add it to fetch(...)"});
      }
  }

  template <class Results>
  void report(const Results& results) {
    std::size_t next = 0;
    const auto take = [&]<class X>(const auto& result) {
      if constexpr (is_scalar<X>) scalars_[next++].number = static_cast<double>(result);
    };
    if constexpr (sizeof...(F) == 1)
      (take.template operator()<F>(results), ...);
    else
      std::apply([&](const auto&... result) { (take.template operator()<F>(result), ...); }, results);
    run_.after_step(scalars_, trains_);
  }

  Run& run_;
  Step step_;
  std::vector<step_report::scalar> scalars_;
  bool trains_ = false;
};

}  // namespace weft
