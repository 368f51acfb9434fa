// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/training/exchange.hpp>
#include <weft/distributed/training/replica_device_setter.hpp>
#include <weft/distributed/training/replica_variables.hpp>
#include <weft/distributed/training/replicated_step.hpp>
#include <weft/distributed/training/strategy.hpp>
#include <weft/session/session.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/transport/separate.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <weft/distributed/training/exchanges.hpp>
#endif

namespace weft {

namespace detail {

/// The error of a task that creates a session although it is not a worker.
error session_outside_workers(const server_options& options, const std::string& job, const std::string& task);

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL error session_outside_workers(const server_options& options, const std::string& job,
                                                    const std::string& task) {
  return error(error_code::failed_precondition, "replicated_session",
               job == options.ps_job
                   ? str_cat({"a parameter server must call join(), but ", task,
                              " creates a session; write if (here.job() == \"", options.ps_job, "\") here.join();"})
                   : str_cat({task, " is not a worker; only tasks of job '", options.worker_job,
                              "' can create sessions (server_options::worker_job)"}));
}
#endif

}  // namespace detail

/// An example count is a scalar node of std::int32_t or std::int64_t.
template <class X>
struct example_count_is_not_an_integer_node : mistake<!detail::is_integer_scalar_node<X>> {};

/// A session of one worker that shares its variables with other workers (between-graph replication). Each worker builds
/// the same graph with the same seed, and runs it on its own data. A step that trains computes gradients here; the
/// strategy decides where the updates run. All other steps, including evaluation, use the values as of the last step.
///
/// Means of gradients are weighted by batch size: the loss is a mean, and the result is the mean over all examples. The
/// batch size is the leading extent of the fed values if that extent is named, or the count set by set_example_count().
/// A worker with an empty batch adds nothing to a step, whatever its gradients are (the mean of no rows is NaN). A step
/// in which all batches are empty updates nothing, and global_step() does not count it. In asynchronous training, a
/// step with an empty batch updates nothing.
///
/// All workers have the same values of trained variables, of variables of variable_kind::frozen, which nothing changes,
/// and of variables of variable_kind::averaged. Steps assign averaged variables: the value becomes the mean of the
/// workers' assignments in a step, or, in asynchronous training, each worker adds its change. Variables of
/// variable_kind::counter contain their initial value plus global_step(). All other variables are local to each worker.
///
/// Workers may make different numbers of steps: the others do not wait for a worker that has called finish().
///
/// Each worker draws its own random numbers, for example for dropout, from the stream with its index; local() can be
/// given another stream. With parameter servers, a restarted worker continues at its last step.
///
/// Parameter servers evaluate schedules of hyperparameters (train/schedules.hpp) themselves, by the number of updates
/// that they have applied. Other hyperparameters that are values of the graph require `collective`.
///
/// The graph must be complete when the session is created. Several sessions may use a server one after the other: each
/// continues from the values on the parameter servers, and starts anew without parameter servers. Not thread-safe.
template <class Strategy>
class replicated_session {
  static constexpr bool has_servers = detail::has_servers<Strategy>;

 public:
  /// Waits for the other tasks (in asynchronous training, only for the parameter servers) and adopts the variables'
  /// initial values from worker 0. `settings` describes other settings that must be the same for all workers, such as
  /// the number of steps; the strings are compared.
  /// Throws weft::error: deadline_exceeded, which lists the missing tasks; failed_precondition if the tasks' graphs or
  /// settings differ; unavailable, which names the lost task.
  replicated_session(const graph& g, task_server& here, std::type_identity_t<Strategy> how = {},
                     session_options options = {}, deadline until = std::chrono::seconds(60),
                     const std::string& settings = {})
      : here_(here),
        variables_(g, share_of_cores(here, options), processes_mean),
        exchange_(
            detail::make_exchange(here, variables_.all(), how, graph_identity(g.hash(), g.seed(), settings), until)) {
    local().set_random_stream(here.index());
  }

  template <class... F, class... P>
  [[nodiscard]] auto prepare(const fetch_list<F...>& fetches, const feed_list<P...>& feeds) {
    return replicated_step<replicated_session, fetch_list<F...>, feed_list<P...>>(*this, fetches, feeds);
  }
  template <class... F>
  [[nodiscard]] auto prepare(const fetch_list<F...>& fetches) {
    return prepare(fetches, feed_list<>{});
  }

  // Also accepts nodes that are not in lists, to report the correct form.
  template <class Fetched, class... X>
  auto prepare(const Fetched& fetched, const X&... fed) {
    static_assert(correct<arguments_are_not_fetch_and_feed<Fetched, X...>>,
                  "prepare: takes two lists: prepare(fetch(loss, train), feed(images, labels))");
    return prepare(detail::meant_fetches(fetched), detail::meant_feeds(fed...));
  }

  /// Sets an integer node of the graph as the example count of steps that are prepared afterwards. Use it if a mask or
  /// a queue, not the fed batch, decides the number of rows that the loss averages. All workers must make the same
  /// call. Steps then throw invalid_argument for a negative count, and gradients are sent after such a step, not during
  /// it.
  ///
  ///     const auto kept = boolean_mask(loss_of_each, is_labelled);
  ///     s.set_example_count(kept.count);
  template <class Count>
  void set_example_count(const Count& count) {
    static_assert(correct<example_count_is_not_an_integer_node<Count>>,
                  "set_example_count: the count must be a scalar node of std::int32_t or std::int64_t; write "
                  "cast<std::int64_t>(x) for an expression");
    if constexpr (correct<example_count_is_not_an_integer_node<Count>>) example_count_ = detail::example_count(count);
  }

  /// This worker's local session, for steps that do not train.
  session& local() { return variables_.local(); }

  /// The number of updates that all workers have made together, as of this worker's last step.
  std::int64_t global_step() const { return variables_.global_step(); }

  /// The number of this worker's next update, counting empty ones: 0 in a new training. A process that replaces a
  /// worker continues with that worker's number. A program that chooses its batch only by this number and the worker's
  /// index computes the same gradients after a restart: docs/how-to/failures.md. The number decreases if parameter
  /// servers have restored their shards (parameter_server::on_rollback).
  std::int64_t next_step() const { return exchange_->next_step(); }

  /// With parameter servers: the number of this worker's gradients that arrived after their step was made without them,
  /// and were dropped (synchronous_with_backups, loss_action::shrink).
  std::int64_t stale_gradients() const
    requires has_servers
  {
    return exchange_->stale_gradients();
  }
  /// With parameter servers: a histogram of this worker's updates by staleness. The staleness of an update is the
  /// number of updates by other workers that parameter server 0 applied between the values that the gradients were
  /// computed from and the update itself. Element k counts the updates of staleness k.
  const std::vector<std::int64_t>& staleness() const
    requires has_servers
  {
    return exchange_->staleness();
  }
  /// With parameter servers: the number of lost workers that training continues without, as of this worker's last step.
  int lost_replicas() const
    requires has_servers
  {
    return exchange_->lost_replicas();
  }

  /// Returns true for the chief, which restores and saves for all workers: worker 0 or, if training survives losses,
  /// the lowest worker that is left.
  bool is_chief() const { return exchange_->is_chief(); }

  /// With asynchronous parameter servers: the number of this worker's updates that a server acknowledged but lost,
  /// because it was killed after it had written its last shard (server_options::shards).
  std::int64_t lost_updates() const
    requires has_servers
  {
    return exchange_->lost_updates();
  }
  /// The workers that train together. The view changes if collective::on_loss lets training continue without a lost
  /// worker.
  training_view view() const
    requires(!has_servers)
  {
    return exchange_->view();
  }

  /// Sets the reason that the errors of the other workers give if this worker leaves now. The next successful step
  /// clears it.
  void set_failure(const error& why) {
    here_.set_failure(why);
    failure_ = why;
  }

  // ---- checkpoints: saved_in(folder, keeper, s) of train/saved_run.hpp calls these ----

  /// Every worker calls it before its first step. On the chief, `load()` writes the values of a checkpoint to local()
  /// and returns the state of the training, or nothing if there is no checkpoint; the other workers receive these
  /// values. With parameter servers, each worker keeps its own local variables; with `collective`, all workers receive
  /// the chief's. Returns the global step, or -1 if training starts anew. A chief that restarts while the others train
  /// changes nothing.
  /// Throws weft::error: on the chief, the errors of load(); on the others, unavailable, which names the chief and the
  /// reason; deadline_exceeded.
  template <class Load>
  std::int64_t restore(Load load, deadline until = std::chrono::seconds(600)) {
    try {
      return exchange_->restore([&]() -> std::optional<cluster_state> { return load(); }, until);
    } catch (const error& problem) {
      here_.set_failure(problem);
      throw;
    }
  }

  /// The chief calls it between two steps. Copies the servers' values and slots to the variables of local(), so that a
  /// saver stores them like the variables of a single process. All values are of the same step; in asynchronous
  /// training, the values of each server are of one moment.
  cluster_state collect(deadline until = std::chrono::seconds(600)) {
    if (unfinished_)
      throw error(error_code::failed_precondition, "save",
                  "the last update ran out of time and has not completed; call exchange() until it has");
    const cluster_state at = exchange_->collect(until);
    if (failure_) here_.set_failure(*failure_);  // the successful call has cleared it
    return at;
  }

  /// Fetches the values that the other workers have computed since the last step.
  void refresh(deadline until = std::chrono::seconds(60)) { exchange_->refresh(until); }

  /// Announces that this worker sends no more gradients. The others continue without it, and the servers end after all
  /// workers have called finish(). Without servers, this worker takes part in the others' updates until all workers
  /// have called finish(); the time that remains until `until` at the call applies to each update. Throws weft::error:
  /// unavailable, which names the lost task; deadline_exceeded, which names the tasks that it waits for. After
  /// deadline_exceeded, call finish() again to continue.
  void finish(deadline until = std::chrono::seconds(60)) { finish_exchange(until, {}); }

  /// The same, but waits until the other workers have made their last updates or are lost. Then calls `last()`, which
  /// may save the end of the training, before it leaves the servers.
  template <class Last>
  void finish(deadline until, Last last) {
    finish_exchange(until, [&] { last(); });
  }

  /// Makes steps until next_step() is `end`, and calls finish(). `make_step()` makes the step of that number. If a
  /// parameter server is lost before a committed step contains this worker's last update, the update is lost too:
  /// finish() then throws aborted, and train_until() repeats the lost steps and finishes.
  ///
  ///     s.train_until(10'000, [&] { step(batch_of(s.next_step(), index), 2min); });
  template <class MakeStep>
  void train_until(std::int64_t end, MakeStep make_step,
                   std::chrono::milliseconds finish_within = std::chrono::seconds(60)) {
    for (;;) {
      while (next_step() < end) make_step();
      try {
        return finish(finish_within);
      } catch (const error& problem) {
        if (problem.code() != error_code::aborted || next_step() >= end) throw;
      }
    }
  }

  /// True if all workers make the same steps, and so can end with the same step.
  static constexpr bool keeps_in_step = [] {
    if constexpr (has_servers)
      return Strategy::mode == consistency::synchronous;
    else
      return true;
  }();
  /// Announces that this worker stops, if workers keep in step; it then makes steps until all_stop() returns true. By
  /// default, all_stop() returns true on all workers after the next update. If training survives the loss of a worker,
  /// all_stop() returns true on all workers once all of them have announced a stop. If other workers have not, it
  /// returns true on this worker only, which then leaves.
  void request_stop() { exchange_->request_stop(); }
  bool all_stop() const { return exchange_->all_stop(); }

  /// Leaves before the training has ended, for example after a signal. Unlike finish(), this is a loss to the other
  /// workers, whose errors contain `why`. If the chief ends too, a worker waits until the chief has left, which may
  /// save a checkpoint, for at most server_options::stop_patience: launchers end all processes when the first one has
  /// ended. Stops the server.
  void leave(const std::string& why) {
    if (!is_chief() && chief_leaves_too()) await_chief();
    here_.set_failure(error(error_code::cancelled, "", why));
    here_.stop();
  }

 private:
  template <class Session, class Fetches, class Feeds>
  friend class replicated_step;

  /// True if the graph's computations between gradients and updates run on the mean: servers receive only the updates.
  static constexpr bool processes_mean = !has_servers;

  void finish_exchange(deadline until, const std::function<void()>& last) {
    exchange_->finish(until, unfinished_, [&](deadline by, std::uint32_t examples) { exchange(by, examples); }, last);
  }

  /// Returns false if the chief continues or has made its last step: it waits for this worker, so both would wait.
  bool chief_leaves_too() {
    if (exchange_->leaves_alone()) return false;
    if (all_stop()) return true;
    try {
      return exchange_->announce_stop(std::chrono::seconds(5));
    } catch (const error&) {
      return false;  // no task could report the chief's end either
    }
  }
  void await_chief() {
    const std::size_t chief = here_.cluster().rank({here_.options().worker_job, 0});
    const auto is_gone = [&](std::size_t rank) {
      const task_state state = here_.members().state(rank);
      return state == task_state::left || state == task_state::lost;
    };
    const auto hears_of_it = [&] {  // from the chief or from a parameter server
      for (std::size_t rank = 0; rank < here_.members().size(); ++rank)
        if (here_.members().state(rank) == task_state::alive && rank != here_.members().self()) return true;
      return false;
    };
    const deadline until(here_.options().stop_patience);
    while (!is_gone(chief) && hears_of_it() && !until.expired()) detail::sleep(std::chrono::milliseconds(10));
  }

  /// Throws if this task is not a worker. The goodbye then gives the reason to the workers that wait for this task.
  static void check_is_worker(task_server& here) {
    const server_options& of = here.options();
    if (here.job() == of.worker_job || (!has_servers && here.job() != of.ps_job)) return;
    const error why = detail::session_outside_workers(of, here.job(), here.name());
    here.set_failure(why);
    throw why;
  }

  static session_options share_of_cores(task_server& here, session_options options) {
    if (options.variables.find_or_add)
      throw error(error_code::invalid_argument, "replicated_session",
                  "the variables belong to the cluster; do not set session_options::variables");
    check_is_worker(here);
    here.job().copy(options.task.job, sizeof options.task.job - 1);
    options.task.task = here.index();
    if (options.threads == 0) {
      const auto tasks = static_cast<unsigned>(here.cluster().tasks_on_host_of({here.job(), here.index()}));
      options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / std::max(1u, tasks)));
    }
    return options;
  }

  /// Sends this worker's gradients and updates the variables. `examples`: the number of examples that the gradients
  /// average; 0: the gradients are not used. After deadline_exceeded, call it again to continue the same update.
  void exchange(deadline until, std::uint32_t examples, const detail::replica_work* work = nullptr) {
    const std::int64_t next = exchange_->next_step();
    try {
      exchange_->update(until, examples, unfinished_.has_value(), work);
    } catch (const error& problem) {
      unfinished_.reset();
      if (problem.code() == error_code::deadline_exceeded)
        unfinished_ = examples;
      else
        exchange_->abandon_update();
      here_.set_failure(problem);
      failure_ = problem;
      throw;
    }
    unfinished_.reset();
    const std::int64_t made = exchange_->next_step();
    here_.members().waits().end(made == next + 1 ? next : made);  // unequal after a rollback
    variables_.set_counters();
    if (failure_) here_.clear_failure();
    failure_.reset();
  }

  task_server& here_;
  detail::replica_variables variables_;
  owned<detail::exchange> exchange_;
  std::optional<detail::example_count> example_count_;
  std::optional<std::uint32_t> unfinished_;  // the examples of an update that has timed out
  std::optional<error> failure_;             // error of the last update
};

template <std::derived_from<task_server> Server, detail::strategy Strategy>
replicated_session(const graph&, Server&, Strategy, session_options = {}, deadline = std::chrono::seconds(60),
                   const std::string& = {}) -> replicated_session<Strategy>;

/// A replicated session is created from a graph, a server, a strategy, and options.
template <class... Arguments>
struct replicated_session_is_not_made_of : mistake<true> {};

// Selected for any other arguments, to report the correct form.
template <class... X>
class replicated_session<replicated_session_is_not_made_of<X...>> {
 public:
  template <class... Arguments>
  explicit replicated_session(const Arguments&...) {
    static_assert(correct<replicated_session_is_not_made_of<X...>>,
                  "replicated_session: write replicated_session s(graph, server, parameter_server<synchronous>{})");
  }
  template <class... F, class... P>
  step<fetch_list<F...>, feed_list<P...>> prepare(const fetch_list<F...>&, const feed_list<P...>&);
  session& local();
  std::int64_t global_step() const;
  void refresh();
  void finish();
};
template <class... X>
replicated_session(const X&...) -> replicated_session<replicated_session_is_not_made_of<X...>>;

}  // namespace weft
