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

/// The error of a task that makes a session although it is not a worker.
error session_outside_workers(const server_options& options, const std::string& job, const std::string& task);

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL error session_outside_workers(const server_options& options, const std::string& job,
                                                    const std::string& task) {
  return error(error_code::failed_precondition, "replicated_session",
               job == options.ps_job
                   ? str_cat({"a parameter server must call join(), and ", task,
                              " makes a session: write if (here.job() == \"", options.ps_job, "\") here.join();"})
                   : str_cat({task, " is not a worker; the tasks of job '", options.worker_job,
                              "' make sessions (server_options::worker_job)"}));
}
#endif

}  // namespace detail

/// An example count is a scalar node of std::int32_t or std::int64_t.
template <class X>
struct example_count_is_not_an_integer_node : mistake<!detail::is_integer_scalar_node<X>> {};

/// A session of one worker whose variables are shared with the other workers' (between-graph replication): each builds
/// the same graph, with the same seed, and runs it on its own data. In a step that trains, gradients are computed here;
/// updates happen where the strategy has the variables. All else, evaluation too, runs on the values as of the last
/// step.
///
/// Where gradients are averaged, those of a worker whose batch is larger count more: the loss is a mean, and the mean
/// is that of all examples. The batch is the leading extent of what is fed, where it is a named one, or what
/// set_example_count() names. A worker with an empty batch adds nothing to a step, whatever its gradients are (the mean
/// of no rows is NaN); a step in which all batches are empty updates nothing, and global_step() does not count it. In
/// asynchronous training a step with an empty batch updates nothing.
///
/// Variables that are trained have one value for all, and so have those of variable_kind::frozen, which nothing
/// changes. So have those of variable_kind::averaged, which steps assign: it is the mean of what the workers have
/// assigned in a step or, in asynchronous training, each worker adds what it has changed. Those of
/// variable_kind::counter are what they began with and global_step(). All others are each worker's own.
///
/// Workers need not make equally many steps: those that are finish()ed are not waited for.
///
/// Each worker draws random numbers of its own, dropout's among them, from the stream of its number: local() may be
/// given another one. With parameter servers a worker that comes again goes on at the step at which it was.
///
/// Parameter servers follow schedules of hyperparameters (train/schedules.hpp) themselves, by the updates that they
/// have applied; other hyperparameters that are values of the graph need `collective`.
///
/// The graph is complete when the session is made. One session after the other may use a server: each goes on from the
/// values that the parameter servers have, and begins anew where there are none. Not for use by several threads at
/// once.
template <class Strategy>
class replicated_session {
  static constexpr bool has_servers = detail::has_servers<Strategy>;

 public:
  /// Meets the other tasks, in asynchronous training the parameter servers alone, and takes over the variables' first
  /// values: those of worker 0. `settings`: what else must be the same for all workers, in words, such as the number of
  /// steps; compared as they are.
  /// Throws weft::error: deadline_exceeded that lists the tasks that are missing, failed_precondition where the tasks'
  /// graphs or settings differ, unavailable that names the task that is gone.
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

  // As others write it: nodes that are in no list.
  template <class Fetched, class... X>
  auto prepare(const Fetched& fetched, const X&... fed) {
    static_assert(correct<arguments_are_not_fetch_and_feed<Fetched, X...>>,
                  "prepare: it takes two lists: prepare(fetch(loss, train), feed(images, labels))");
    return prepare(detail::meant_fetches(fetched), detail::meant_feeds(fed...));
  }

  /// Counts the examples of a step by an integer of the graph, in steps that are prepared afterwards: where a mask or a
  /// queue decides how many rows the loss is the mean of, rather than the batch that is fed. All workers call it alike.
  /// Steps then throw invalid_argument for a negative count. Gradients leave when such a step has ended, and not while
  /// it goes on.
  ///
  ///     const auto kept = boolean_mask(loss_of_each, is_labelled);
  ///     s.set_example_count(kept.count);
  template <class Count>
  void set_example_count(const Count& count) {
    static_assert(correct<example_count_is_not_an_integer_node<Count>>,
                  "set_example_count: needs a scalar node of std::int32_t or std::int64_t; cast<std::int64_t>(x) makes "
                  "one of an expression");
    if constexpr (correct<example_count_is_not_an_integer_node<Count>>) example_count_ = detail::example_count(count);
  }

  /// The session of this worker alone: for what does not train.
  session& local() { return variables_.local(); }

  /// Updates that all workers have made together, as of this worker's last step.
  std::int64_t global_step() const { return variables_.global_step(); }

  /// The number of this worker's next update, empty ones included: 0 in a new training, and where another process takes
  /// a worker's place that of the update with which it goes on. A program that chooses its batch by this number and the
  /// worker's index, and nothing else, computes the same gradients after a restart: docs/how-to/failures.md. It goes
  /// back where parameter servers have restored their shards (parameter_server::on_rollback).
  std::int64_t next_step() const { return exchange_->next_step(); }

  /// With parameter servers: how many of this worker's gradients came after their step had been made without them, and
  /// were dropped (synchronous_with_backups, loss_action::shrink).
  std::int64_t stale_gradients() const
    requires has_servers
  {
    return exchange_->stale_gradients();
  }
  /// With parameter servers: a histogram of this worker's updates by their staleness, which is the number of updates
  /// that others had made at parameter server 0 between the values that the gradients were computed from and their
  /// application. Element k counts those of staleness k.
  const std::vector<std::int64_t>& staleness() const
    requires has_servers
  {
    return exchange_->staleness();
  }
  /// With parameter servers: how many workers are lost that training goes on without, as of this worker's last step.
  int lost_replicas() const
    requires has_servers
  {
    return exchange_->lost_replicas();
  }

  /// Whether this is the chief, which restores and saves for all: worker 0 or, where workers survive a loss, the lowest
  /// of those that are left.
  bool is_chief() const { return exchange_->is_chief(); }

  /// With asynchronous parameter servers: how many of this worker's updates a server had acknowledged and has lost, for
  /// it was killed after it had written its last shard (server_options::shards).
  std::int64_t lost_updates() const
    requires has_servers
  {
    return exchange_->lost_updates();
  }
  /// The workers that train together: it changes where collective::on_loss lets others go on without one that is lost.
  training_view view() const
    requires(!has_servers)
  {
    return exchange_->view();
  }

  /// Sets the error that ends this worker, if it leaves now: the error of the others then gives it as the reason. The
  /// next step that succeeds clears it.
  void set_failure(const error& why) {
    here_.set_failure(why);
    failure_ = why;
  }

  // ---- checkpoints: saved_in(folder, keeper, s) of train/saved_run.hpp calls these ----

  /// Every worker calls it before its first step: the chief gives local() a checkpoint's values by `load()`, which
  /// returns where the training was, or nothing where there is no checkpoint, and the others get these values. With
  /// parameter servers local variables stay each worker's own; with `collective` all have the chief's. Returns the
  /// global step, or -1 where training begins anew. A chief that comes back while the others train changes nothing.
  /// Throws weft::error: what load() throws, at the chief; unavailable, that names the chief and says why, at the
  /// others; deadline_exceeded.
  template <class Load>
  std::int64_t restore(Load load, deadline until = std::chrono::seconds(600)) {
    try {
      return exchange_->restore([&]() -> std::optional<cluster_state> { return load(); }, until);
    } catch (const error& problem) {
      here_.set_failure(problem);
      throw;
    }
  }

  /// The chief calls it between two steps: brings what the servers have, slots too, to the variables of local(), so
  /// that a saver keeps it as that of one process. All is of one step; in asynchronous training what each server has is
  /// of one moment.
  cluster_state collect(deadline until = std::chrono::seconds(600)) {
    if (unfinished_)
      throw error(error_code::failed_precondition, "save",
                  "the last update ran out of time and has not completed; call exchange() until it has");
    const cluster_state at = exchange_->collect(until);
    if (failure_) here_.set_failure(*failure_);  // a call that succeeds has cleared it
    return at;
  }

  /// Fetches the values that the others have made since the last step.
  void refresh(deadline until = std::chrono::seconds(60)) { exchange_->refresh(until); }

  /// Says that no more gradients come from here: the others go on without, and the servers end when all have said it.
  /// Without servers this worker stays, and takes part in the others' updates, until all have come here: for each
  /// update they have as much time as is left until `until` at the call. Throws weft::error: unavailable that names the
  /// task that is gone, deadline_exceeded that names the tasks that are waited for: then finish() may be called again,
  /// and goes on.
  void finish(deadline until = std::chrono::seconds(60)) { finish_exchange(until, {}); }

  /// The same, but waits until the others have no more updates either or are gone, and calls `last()`, which may save
  /// the end of the training, before the servers are left.
  template <class Last>
  void finish(deadline until, Last last) {
    finish_exchange(until, [&] { last(); });
  }

  /// Makes steps until next_step() is `end`, and calls finish(): `make_step()` makes the step of that number. A
  /// parameter server that is lost before a committed step has this worker's last update takes that update away:
  /// finish() throws aborted then, and train_until() makes the lost steps again and finishes.
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

  /// Whether all workers make the same steps, and so can end with the same one.
  static constexpr bool keeps_in_step = [] {
    if constexpr (has_servers)
      return Strategy::mode == consistency::synchronous;
    else
      return true;
  }();
  /// Announces that this worker stops, if workers keep in step; it then makes steps until all_stop() returns true. By
  /// default that is after the next update, on all workers. If training survives the loss of a worker, all_stop()
  /// returns true on all workers once all have announced it; if others do not, on this worker alone, which then leaves.
  void request_stop() { exchange_->request_stop(); }
  bool all_stop() const { return exchange_->all_stop(); }

  /// Leaves before the training has ended. Unlike finish() this is a loss to the others, whose error says `why`: where
  /// a signal ends this worker, say. Where the chief knows that its training ends too, a worker stays until that has
  /// left, which may save a checkpoint, for server_options::stop_patience at most: launchers end all processes when the
  /// first has ended. Stops the server.
  void leave(const std::string& why) {
    if (!is_chief() && chief_leaves_too()) await_chief();
    here_.set_failure(error(error_code::cancelled, "", why));
    here_.stop();
  }

 private:
  template <class Session, class Fetches, class Feeds>
  friend class replicated_step;

  /// Whether what a graph makes of gradients is made of their mean: servers know the updates alone.
  static constexpr bool processes_mean = !has_servers;

  void finish_exchange(deadline until, const std::function<void()>& last) {
    exchange_->finish(until, unfinished_, [&](deadline by, std::uint32_t examples) { exchange(by, examples); }, last);
  }

  /// A chief that goes on, or has made its last step already, waits for this worker: both would wait.
  bool chief_leaves_too() {
    if (exchange_->leaves_alone()) return false;
    if (all_stop()) return true;
    try {
      return exchange_->announce_stop(std::chrono::seconds(5));
    } catch (const error&) {
      return false;  // nobody would tell of the chief's end either
    }
  }
  void await_chief() {
    const std::size_t chief = here_.cluster().rank({here_.options().worker_job, 0});
    const auto is_gone = [&](std::size_t rank) {
      const task_state state = here_.members().state(rank);
      return state == task_state::left || state == task_state::lost;
    };
    const auto hears_of_it = [&] {  // from itself, or from a parameter server
      for (std::size_t rank = 0; rank < here_.members().size(); ++rank)
        if (here_.members().state(rank) == task_state::alive && rank != here_.members().self()) return true;
      return false;
    };
    const deadline until(here_.options().stop_patience);
    while (!is_gone(chief) && hears_of_it() && !until.expired()) detail::sleep(std::chrono::milliseconds(10));
  }

  /// The goodbye of a task that is not a worker gives the reason to the workers that wait for it.
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
                  "its variables are the cluster's: leave out session_options::variables");
    check_is_worker(here);
    here.job().copy(options.task.job, sizeof options.task.job - 1);
    options.task.task = here.index();
    if (options.threads == 0) {
      const auto tasks = static_cast<unsigned>(here.cluster().tasks_on_host_of({here.job(), here.index()}));
      options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / std::max(1u, tasks)));
    }
    return options;
  }

  /// Brings this worker's gradients to the others and the variables up to date. `examples`: of how many they are the
  /// mean; 0: they are not used. After deadline_exceeded it is called again, and goes on with the same update.
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
    here_.members().waits().end(made == next + 1 ? next : made);  // or it has gone back
    variables_.set_counters();
    if (failure_) here_.clear_failure();
    failure_.reset();
  }

  task_server& here_;
  detail::replica_variables variables_;
  owned<detail::exchange> exchange_;
  std::optional<detail::example_count> example_count_;
  std::optional<std::uint32_t> unfinished_;  // the examples of an update that has run out of time
  std::optional<error> failure_;             // of the last update
};

template <std::derived_from<task_server> Server, detail::strategy Strategy>
replicated_session(const graph&, Server&, Strategy, session_options = {}, deadline = std::chrono::seconds(60),
                   const std::string& = {}) -> replicated_session<Strategy>;

/// A replicated session is made of a graph, a server, a strategy, and options.
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
