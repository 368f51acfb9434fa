// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/loss_watch.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/training_terms.hpp>
#include <weft/distributed/parameter/workers/worker_roster.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Decides which workers are gone, and whether training can continue without them. During the wait of the loss policy,
/// another process may take the place of a worker that is gone. After the wait, synchronous training requires all
/// workers except its backups, and asynchronous training server_options::min_workers, by default all. If the policy
/// shrinks or takes over, both require min_workers, by default one.
///
/// Invariant: once synchronous training has ended because a worker is gone, or by decision of parameter server 0,
/// why_broken() never becomes empty again. Not thread-safe: the serving thread owns the object.
class worker_quorum {
  using time_point = deadline::time_point;

 public:
  using worker = served_worker;

  /// Throws weft::error (invalid_argument) if server_options::min_workers is out of range.
  worker_quorum(task_server& here, worker_roster& workers) : here_(here), members_(here.members()), workers_(workers) {
    const int all = static_cast<int>(workers.size());
    const int min_workers = here.options().min_workers.value_or(all);
    if (min_workers != all && (min_workers < 1 || min_workers > all))
      throw error(
          error_code::invalid_argument, here.name(),
          {"server_options::min_workers must be from 1 to ", all, ", the number of workers; it is ", min_workers});
  }

  /// Sets the terms of training, which the first worker sends.
  void set_terms(const training_terms& terms) {
    terms_ = terms;
    watch_.set_wait(terms.on_loss.wait);
  }
  bool is_synchronous() const { return terms_ && terms_->is_synchronous(); }
  bool has_decisions() const { return terms_ && terms_->has_decisions(); }
  bool takes_over() const { return terms_ && terms_->takes_over(); }
  bool skips_nonfinite() const { return terms_ && terms_->skips_nonfinite; }

  /// The reason why training cannot continue; empty if it can.
  std::optional<error> why_broken() {
    if (interrupted_) return interrupted_;
    if (!terms_) return {};
    if (judges_workers()) return too_few();
    someone_gone();  // records when workers were lost
    return {};
  }
  /// Sets whether all workers stop after the last step, because of a signal.
  void set_stopping(bool stops) { is_stopping_ = stops; }
  /// Ends training permanently, unless it has ended before.
  void interrupt(const error& why) {
    if (!interrupted_) interrupted_ = why;
  }

  /// Replaces the worker's process by another one. By the default policy synchronous training does not survive the end
  /// of the first process, however soon the second one connects.
  void replace(worker& each, std::uint64_t incarnation) {
    if (each.took_part && !each.done && is_synchronous() && !has_decisions() && !interrupted_) {
      interrupted_ = someone_gone();
      if (!interrupted_) interrupted_ = why_gone(each);
    }
    each.had_process = each.had_process || each.took_part;
    each.incarnation = incarnation;
    each.done = each.took_part = each.stays = each.is_taken_over = each.announces_stop = each.was_done = false;
    each.failure.reset();
    each.refused.clear();
    each.rejected.clear();
    watch_.replace(each.index);
  }

  /// Refuses a process. If an earlier process has trained in its place and the loss policy waits, the other workers
  /// continue to wait for a replacement.
  void refuse(worker& each, bool has_trained, std::string why) {
    if (!keeps_places() || !(has_trained || each.had_process)) {
      each.refused = std::move(why);
      return;
    }
    each.rejected = std::move(why);
    watch_.reject(each.index);
  }

  /// Returns true if the loss policy keeps the place of a lost worker.
  bool keeps_places() const { return watch_.keeps_places(); }

  int max_backups() const { return terms_->model.backups; }
  bool bounds_staleness() const { return terms_ && terms_->bounds_staleness(); }
  int max_staleness() const { return terms_->model.staleness; }

  /// Returns true if another process may take the place of this worker, which is gone. A worker that was killed after
  /// its last update may have had work left, such as a report, which the replacement does.
  bool is_awaited(const worker& each) {
    if (!keeps_places() || interrupted_ || each.is_left_out) return false;
    const auto now = detail::now();
    if (each.done) return is_lost_after_end(each) && !watch_.is_over(each.index, now);
    return !is_gone_for_good(each, now);
  }

  /// Closes the worker's connection. `may_return`: the worker may open another one while its process lives.
  void drop(worker& from, const std::string& why, bool may_return = false) {
    from.connection.reset();
    from.enrolled = false;
    from.gone = why;
    from.gone_at = detail::now();
    from.may_return = may_return;
    someone_gone();  // records the first worker that is gone
  }

  /// Reports the tasks for whose replacement the loss policy waits, and the end of the wait once a step is made or
  /// restored. `next_step` is the next step of the training in this epoch.
  void report_waits(std::uint64_t epoch, std::int64_t next_step) {
    if (!keeps_places()) return;
    awaited_tasks tasks;
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (members_.task(rank).job == here_.options().ps_job && members_.state(rank) == task_state::lost)
        tasks.add_lost(members_.task(rank), members_.reason(rank));
    if (is_synchronous() || bounds_staleness())
      for (const worker& each : workers_)
        if (watch_.is_missing(each.index) && (each.took_part || each.had_process) && is_awaited(each) &&
            (!each.done || workers_.have_others_ended(each)))
          tasks.add_lost(members_.task(each.rank),
                         each.rejected.empty() ? members_.reason(each.rank, each.incarnation) : each.rejected);
    if (tasks.empty()) {
      if (epoch != waited_in_epoch_ || next_step != waited_at_)
        members_.waits().end(epoch == waited_in_epoch_ ? waited_at_ : next_step);
    } else if (!interrupted_) {
      members_.waits().begin(tasks, watch_.wait(), true);
      waited_in_epoch_ = epoch;
      waited_at_ = next_step;
    }
  }

  /// Drops the worker if its process is lost, its connection has stalled, or it has sent no request for too long.
  /// Returns false if its process is lost.
  bool supervise(worker& each, time_point now) {
    if (each.connection && members_.state(each.rank, each.incarnation) == task_state::lost) {
      drop(each, members_.reason(each.rank, each.incarnation));
      return false;
    }
    if (each.connection)
      if (const auto stall = each.connection->find_stall(now, here_.options().stalled, each.enrolled))
        drop(each, stall->why, stall->may_return);
    drop_if_idle(each, now);
    return true;
  }

 private:
  void drop_if_idle(worker& each, time_point now) {
    if (each.has_asked || each.is_parked() || members_.state(each.rank) != task_state::alive) {
      each.has_asked = false;
      each.last_asked = now;
    }
    if (each.done || each.given_up || now - each.last_asked <= here_.options().idle_worker) return;
    const auto limit = std::chrono::duration_cast<std::chrono::seconds>(here_.options().idle_worker);
    drop(each, str_cat({"is alive, but has sent no request for ", limit.count(), " s"}));
    each.given_up = true;
  }

  /// Returns true if training that needs this worker cannot continue.
  bool is_gone(const worker& each, time_point now) const {
    if (each.done) return false;
    const task_state state = members_.state(each.rank, each.incarnation);
    if (state == task_state::lost || (state == task_state::left && !each.connection)) return true;
    if (!each.refused.empty() || !each.rejected.empty()) return true;
    // A connection may end before its worker. The worker may open another one within the heartbeat timeout.
    return !each.gone.empty() && (!each.may_return || now - each.gone_at > here_.heartbeat_timeout(each.rank));
  }

  error why_gone(const worker& each) const {
    const bool refused = !each.refused.empty() && members_.state(each.rank, each.incarnation) != task_state::lost;
    if (refused) return error(error_code::unavailable, "push_pull", {workers_.name(each), " ", each.refused});
    if (!each.rejected.empty())
      return error(error_code::unavailable, "push_pull", {workers_.name(each), " ", each.rejected});
    return members_.diagnose(each.rank, each.incarnation, "push_pull", each.gone.empty() ? left_early : each.gone,
                             true);
  }

  /// Returns true if this server decides without which workers training continues.
  bool judges_workers() const { return !terms_->has_decisions() || here_.index() == 0; }

  /// Returns true if the worker is gone and no other process may take its place any more. The policy does not wait for
  /// a worker that has reported its own end, or that has left after the step with which all workers stop.
  bool is_gone_for_good(const worker& each, time_point now) const {
    if (!is_gone(each, now)) return false;
    return !waits_for(each) || watch_.is_over(each.index, now);
  }
  /// Returns true if the worker was lost after it was done. False for workers that this server has not served: it knows
  /// them only from a manifest and from reports.
  bool is_lost_after_end(const worker& each) const {
    return each.done && each.incarnation != 0 && members_.state(each.rank, each.incarnation) == task_state::lost;
  }
  /// Returns true if the loss policy keeps the place of this worker once it is gone.
  bool waits_for(const worker& each) const {
    if (!keeps_places() || !each.refused.empty()) return false;
    return !is_stopping_ || members_.state(each.rank, each.incarnation) != task_state::left;
  }

  /// The reason for the first loss of a worker that was not done; later losses usually follow from it.
  std::optional<error> someone_gone() {
    const time_point now = detail::now();
    for (const worker& each : workers_) watch_.note(each.index, is_gone(each, now) || is_lost_after_end(each), now);
    const auto counts = [&](const worker& each) { return is_gone_for_good(each, now); };
    if (!first_gone_ || !counts(*first_gone_)) {
      // After a delay, several workers may be gone at once; the membership knows which was lost first.
      first_gone_ = nullptr;
      const std::optional<std::size_t> first_lost = members_.first_lost();
      for (const worker& each : workers_)
        if (counts(each) && (!first_gone_ || each.rank == first_lost)) first_gone_ = &each;
    }
    if (!first_gone_) return {};
    return why_gone(*first_gone_);
  }

  /// Number of workers that training requires.
  int min_workers() const {
    const int all = static_cast<int>(workers_.size());
    const bool shrinks = terms_->on_loss.then != loss_action::stop;  // or takes over
    if (shrinks || !is_synchronous()) return here_.options().min_workers.value_or(shrinks ? 1 : all);
    return std::max(1, all - terms_->model.backups);
  }

  /// The reason why training cannot continue if too many workers are gone. Otherwise leaves the lost workers out.
  std::optional<error> too_few() {
    std::optional<error> first = someone_gone();
    if (!first) return {};
    const time_point now = detail::now();
    const bool asynchronous = !is_synchronous();
    const int all = static_cast<int>(workers_.size());
    const int left = all - static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const worker& each) {
                       // A worker that was dropped as idle may send requests again.
                       return !(asynchronous && each.given_up) && is_gone_for_good(each, now);
                     }));
    const int needed = min_workers();
    if (left >= needed) {
      const auto training = static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const worker& each) {
        return !each.done && !is_gone_for_good(each, now);
      }));
      for (worker& each : workers_)
        if (!each.is_left_out && !each.is_taken_over && is_gone_for_good(each, now)) leave_out(each, training);
      return {};
    }
    const std::string others_gone =
        workers_.names([&](const worker& each) { return &each != first_gone_ && is_gone_for_good(each, now); });
    if (needed < all)
      first = error(
          first->code(), "push_pull",
          {first->sentence(), "; ", left, " of ", all, " workers are left",
           others_gone.empty() ? "" : " (also gone: " + others_gone + ")", ", but training requires ", needed,
           is_synchronous() && terms_->on_loss.then == loss_action::stop ? "" : " (server_options::min_workers)"});
    if (waits_for(*first_gone_)) first = watch_.not_replaced(*first, "push_pull");
    if (keeps_places() || has_decisions()) interrupted_ = first;
    return first;
  }

  void leave_out(worker& each, int left) {
    (takes_over() ? each.is_taken_over : each.is_left_out) = true;
    if (is_stopping_ || left == 0) return;                             // training does not continue
    if (*terms_ == training_terms(consistency::asynchronous)) return;  // on_worker_change reports it
    const error why(error_code::unavailable, here_.name(),
                    {"training continues with ", left, " of ", workers_.size(),
                     takes_over() ? " workers, which compute the gradients of the lost one: " : " workers: ",
                     why_gone(each).sentence()});
    if (here_.options().on_left_out)
      here_.options().on_left_out(why);
    else
      std::fprintf(stderr, "weft: %s\n", why.what());
  }

  task_server& here_;
  membership& members_;
  worker_roster& workers_;
  std::optional<training_terms> terms_;
  loss_watch watch_;  // workers by index
  const worker* first_gone_ = nullptr;
  std::uint64_t waited_in_epoch_ = 0;  // epoch of the last wait for a process
  std::int64_t waited_at_ = -1;        // next step at that time
  bool is_stopping_ = false;
  std::optional<error> interrupted_;  // why training has ended permanently
};

}  // namespace weft::detail
