// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/device/cpu/thread_pool.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/membership/training_view.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/shards/shard_links.hpp>
#include <weft/distributed/parameter/steps/gradient_refusals.hpp>
#include <weft/distributed/parameter/steps/norm_exchange.hpp>
#include <weft/distributed/parameter/steps/update_history.hpp>
#include <weft/distributed/parameter/steps/worker_quorum.hpp>
#include <weft/distributed/parameter/workers/worker_answers.hpp>
#include <weft/distributed/parameter/workers/worker_roster.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

/// Synchronous training: one barrier for all variables of a step. The requests of the workers are parked until the step
/// is made; then the mean is applied and all workers are answered.
///
/// By the default policy a step is made when all workers that are not done have sent their gradients, which stay in the
/// buffers that received them. If workers may be lost or late, gradients are stored apart from the connection that
/// received them, and parameter server 0 decides: it knows which gradients of the step all servers hold, and selects
/// the workers whose gradients make the step.
///
/// If gradients on several servers are clipped by one norm, each server makes the step when it knows the norm. Server 0
/// then announces its decision before it makes the step, and does not change it.
///
/// Invariant: all parked updates have the same step number. Not thread-safe: the serving thread owns the object.
class synchronous_steps {
 public:
  using worker = served_worker;

  synchronous_steps(const task_server& here, worker_roster& workers, worker_quorum& quorum, parameter_store& store,
                    update_history& history, worker_answers& answers, shard_links& links)
      : here_(here),
        only_finite_(here.options().not_finite == nonfinite_gradients::refuse),
        workers_(workers),
        quorum_(quorum),
        store_(store),
        history_(history),
        answers_(answers),
        links_(links),
        norms_(store, links, static_cast<std::size_t>(here.cluster().num_tasks(here.options().ps_job))) {}

  /// Takes the terms of training from the first worker's message.
  void begin(const enroll_message& said) {
    norms_.begin(said);
    if (norms_.are_exchanged()) links_.exchange_squares(said.variables.size());
  }

  /// Adds a worker's gradients to the step. `payload_limit` bounds the worker's next request. Throws weft::error:
  /// unavailable if training cannot continue, aborted if the worker is ahead of the others.
  void contribute(worker& from, std::uint64_t payload_limit) {
    if (const auto broken = quorum_.why_broken()) throw *broken;
    if (quorum_.has_decisions()) return hold(from, payload_limit);
    const std::int64_t step = from.connection->request().step;
    // A worker that is ahead of the others has skipped a step. Only this worker gets an error.
    for (worker& other : workers_) {
      if (&other == &from || !other.contributes()) continue;
      const std::int64_t its = other.connection->request().step;
      if (its < step) throw ahead_refusal(workers_.name(from), step, workers_.name(other), its);
      if (its > step) answers_.fail(other, ahead_refusal(workers_.name(other), its, workers_.name(from), step));
    }
    from.connection->park(payload_limit);
    complete();
  }

  /// Makes the step if its gradients have arrived.
  void complete() {
    if (!quorum_.is_synchronous()) return;
    chosen_.clear();
    if (!quorum_.has_decisions())
      choose_all();
    else if (links_.is_first() && !is_frozen_)
      choose();
    else if (!links_.is_first())
      follow();
    if (!chosen_.empty()) make();
    if (!quorum_.takes_over() || !links_.is_first()) return;
    for (worker& each : workers_)
      if (each.awaits_step())
        answer_awaiting(each);
      else if (each.contributes())
        request_owed(each);
  }

  // ---- workers that compute for others (loss_action::take_over) ----

  /// Takes the gradients of a replica, the worker's own or a lost worker's: they are the same whichever worker computes
  /// them. Throws weft::error: unavailable, aborted, invalid_argument.
  void take_push(worker& from) {
    if (const auto broken = quorum_.why_broken()) throw *broken;
    const frame_header& asked = from.connection->request();
    const std::uint64_t replica = asked.request >> push_replica_shift;
    const std::uint32_t where = asked.flags & in_segment;
    if (!quorum_.takes_over() || replica >= workers_.size() || asked.step < 0)
      throw error(error_code::invalid_argument, "parameter_server",
                  {"the workers do not train replica ", replica, " in step ", asked.step});
    const std::int64_t next = next_step();
    worker& of = workers_[static_cast<std::size_t>(replica)];
    if (asked.step > next) throw ahead_refusal(workers_.name(from), asked.step, here_.name(), next);
    if (&of == &from) take_back(of);
    from.announces_stop = (asked.flags & stopping) != 0;
    if (asked.step < next) {
      const bool is_known = history_.contains(of.index, asked.step);
      return answers_.acknowledge(from, where | (is_known ? duplicate : stale));
    }
    keep(of, from, next);
    answers_.acknowledge(from, where);
    report();
    complete();
  }

  /// Answers a worker that waits for a step if the step is made, if training has failed, or if the worker must compute
  /// the gradients of a lost worker. Returns true if it answered.
  bool answer_awaiting(worker& from) {
    const std::int64_t step = from.connection->request().step;
    if (step < next_step()) {  // even if training has ended with the step: workers that stop save its values
      const bool is_late = !history_.contains(from.index, step);
      answers_.acknowledge(from, stop_flag() | (is_late ? static_cast<std::uint32_t>(stale) : 0u));
      return true;
    }
    if (const auto broken = quorum_.why_broken()) {
      answers_.fail(from, *broken);
      return true;
    }
    if (from.failure) {
      answers_.fail(from, *from.failure);
      from.failure.reset();
      return true;
    }
    return request_owed(from);
  }

  /// The next step to be made.
  std::int64_t next_step() const { return history_.following(history_.last_step()); }

  /// Names the tasks for which the parked gradients wait.
  std::string whom_it_waits_for() const {
    const std::int64_t step = next_step();
    if (std::string servers = norms_.whom_it_waits_for(step_at_work_); !servers.empty()) return servers;
    if (!quorum_.has_decisions())
      return workers_.names([](const worker& each) { return !each.contributes() && !each.done; });
    if (const std::string names = workers_.names(
            [&](const worker& each) { return !each.held.are_of(step) && !each.done && !each.is_left_out; });
        !names.empty())
      return names;
    if (!links_.is_first()) return "a decision of parameter server 0";
    for (const worker& each : workers_)
      if (each.held.are_of(step))
        if (const std::string names = links_.who_lack(each.index, step); !names.empty())
          return str_cat({"the gradients of ", workers_.name(each), " to reach ", names});
    return "a decision";
  }

  /// The flag by which answers report that training ends with the last step; 0 if it does not.
  std::uint32_t stop_flag() const { return stopping_ ? static_cast<std::uint32_t>(stopping) : 0u; }

  /// The number of examples in gradients of weight 1; 0: not known yet.
  std::uint32_t unit_weight() const { return unit_weight_; }
  void restore_unit_weight(std::uint32_t unit) { unit_weight_ = unit; }

  // ---- shards ----

  /// Sets a function to call after each step.
  void set_after_step(std::function<void()> call) { after_step_ = std::move(call); }
  /// While frozen, parameter server 0 decides no step.
  void freeze(bool frozen) { is_frozen_ = frozen; }
  /// Returns true if training ends, or a connected worker has announced that it leaves.
  bool is_stopping() const {
    return stopping_ || std::any_of(workers_.begin(), workers_.end(),
                                    [](const worker& each) { return each.announces_stop && each.connection; });
  }
  /// Resets the state after the run has gone back to an earlier step: the workers send all gradients again.
  void begin_epoch(std::uint32_t unit) {
    unit_weight_ = unit;
    complete_.clear();
    norms_.begin_epoch();
    stopping_ = false;
    quorum_.set_stopping(false);
  }
  /// Another epoch begins, in which servers exchange the squares of gradients again.
  void forget_norms() { norms_.begin_epoch(); }

 private:
  /// Asks a worker that waits for a step to compute the gradients of a lost worker. The request takes the place of the
  /// answer. Returns false if the worker owes none.
  bool request_owed(worker& from) {
    const std::int64_t step = from.connection->request().step;
    for (worker& each : workers_)
      if (is_owed(each, step) && is_owner(from, each) && is_missing(each, from, step)) {
        answers_.acknowledge(from, 0, static_cast<std::uint32_t>(each.index + 1));
        return true;
      }
    return false;
  }
  /// Notes that the worker sends its own gradients again: no other worker computes them any more.
  static void take_back(worker& from) {
    from.is_taken_over = false;
    from.failure.reset();
  }
  bool is_owed(const worker& each, std::int64_t step) const {
    return each.is_taken_over && !each.done && step == next_step();
  }
  /// Gradients that a process pushed have reached all servers before its next request. Gradients from another process
  /// may have reached only some.
  bool is_missing(const worker& each, const worker& owner, std::int64_t step) const {
    return !each.held.are_of(step) || (each.holder != owner.incarnation && !links_.all_hold(each.index, step));
  }
  bool can_own(const worker& each) const {
    return each.connection && each.enrolled && !each.done && !each.is_taken_over && each.refused.empty();
  }
  /// Returns true if worker `one` computes the gradients of `lost`. Parameter server 0 decides this.
  bool is_owner(const worker& one, const worker& lost) {
    std::vector<replica_part> parts;
    for (const worker& each : workers_)
      parts.push_back(can_own(each)                      ? replica_part::computes
                      : each.is_taken_over && !each.done ? replica_part::lost
                                                         : replica_part::none);
    owners_ = assign_replicas(std::move(owners_), parts);
    return owners_[lost.index] == static_cast<int>(one.index);
  }

  // ---- selection of gradients ----

  /// Selects all workers that are not done, once all their gradients have arrived. All servers select the same workers:
  /// a worker is done only after all servers have made its last step, and sends no gradients then.
  void choose_all() {
    for (const worker& each : workers_)
      if (!each.contributes() && !each.done)
        return chosen_.clear();
      else if (each.contributes())
        chosen_.push_back(each.index);
  }

  /// At parameter server 0: selects all workers that are not done or left out or, with backups, the first that suffice.
  /// Only gradients that all servers hold count.
  void choose() {
    const std::int64_t step = next_step();
    if (norms_.are_exchanged() && links_.decision().step == step) return follow();
    std::erase_if(complete_, [&](std::size_t index) { return !workers_[index].held.are_of(step); });
    std::size_t expected = 0, missing = 0;
    for (const worker& each : workers_) {
      const bool known = std::find(complete_.begin(), complete_.end(), each.index) != complete_.end();
      const bool is_complete = known || (each.held.are_of(step) && links_.all_hold(each.index, step));
      if (is_complete && !known) complete_.push_back(each.index);
      if (each.done || each.is_left_out) continue;
      ++expected;
      missing += is_complete ? 0 : 1;
    }
    if (complete_.empty()) return;
    chosen_ = complete_;
    const int backups = quorum_.max_backups();
    if (backups > 0) {
      const auto most = static_cast<std::size_t>(std::max(1, static_cast<int>(workers_.size()) - backups));
      const std::size_t enough = std::max<std::size_t>(1, std::min(most, expected));
      if (chosen_.size() < enough) return chosen_.clear();
      chosen_.resize(enough);
    } else if (missing > 0) {
      return chosen_.clear();
    }
    std::sort(chosen_.begin(), chosen_.end());
  }

  /// Selects the workers that parameter server 0 has announced, once their gradients have arrived.
  void follow() {
    const decision_message& decided = links_.decision();
    if (decided.step != next_step()) return;
    for (const std::size_t index : decided.workers)
      if (!workers_[index].held.are_of(decided.step)) return;
    chosen_ = decided.workers;
  }

  /// Keeps the gradients even if the worker is lost. A worker that is late receives the current values, flagged as
  /// stale.
  void hold(worker& from, std::uint64_t payload_limit) {
    const std::int64_t step = from.connection->request().step, next = next_step();
    from.is_left_out = false;
    take_back(from);
    from.announces_stop = (from.connection->request().flags & stopping) != 0;
    if (step < next) return answers_.send_values(from, stale | stop_flag());
    if (step > next) throw ahead_refusal(workers_.name(from), step, here_.name(), next);
    keep(from, from, step);
    from.connection->park(payload_limit);
    report();
    complete();
  }

  /// Keeps the gradients of worker `of` that `from` has sent for the step. If the other servers count on the squares of
  /// earlier ones, those are used: a process that replaces the worker may compute others.
  void keep(worker& of, worker& from, std::int64_t step) {
    if (of.held.are_of(step) && norms_.has_sent(step)) return;
    of.held.take(*from.connection, store_);
    of.holder = from.incarnation;
  }

  /// Reports to parameter server 0 which gradients this server holds.
  void report() {
    if (links_.is_first()) return;
    std::vector<std::int64_t> steps;
    for (const worker& each : workers_) steps.push_back(each.held.step());
    links_.report_held(next_step(), std::move(steps));
  }

  // ---- the step ----

  void make() {
    const bool decided = quorum_.has_decisions();
    const std::int64_t step = decided ? next_step() : workers_[chosen_.front()].connection->request().step;
    contributions_.clear();
    copies_.clear();
    norm_exchange::identity gradients;
    for (const std::size_t index : chosen_) {
      worker& each = workers_[index];
      if (examples_of(each) <= 0) continue;
      contributions_.push_back({gradients_of(each), weight_of(each)});
      if (!norms_.are_needed()) continue;
      if (decided)
        gradients.push_back({index, each.held.arrivals(), 0});
      else
        gradients.push_back({index, each.newest, each.connection->request().request});
    }
    bool update = !contributions_.empty();
    const norm_exchange::result* norms = nullptr;
    if (update && norms_.are_needed()) {
      step_at_work_ = step;
      if (decided && norms_.are_exchanged() && links_.is_first() && links_.decision().step != step)
        links_.announce(step, chosen_);
      const bool skips = quorum_.skips_nonfinite();
      norms = norms_.find(step, gradients, [&] { return store_.squares_of_mean(contributions_, helpers(), skips); });
      if (!norms) return;
      if (!skips && only_finite_ && !norms->is_finite) return refuse_nonfinite(step);
      update = norms->is_finite || !skips;
    }
    if (norms && quorum_.skips_nonfinite()) answers_.keep_answers_in_flight();
    const bool stops = ends_training();
    const auto waits = [&](const worker& each) {
      return each.contributes() && each.connection->request().step == step;
    };
    if (update) {
      answers_.keep_answers_in_flight();
      for (worker& each : workers_)
        if (waits(each) && each.connection->uses_segment())
          copies_.push_back(each.connection->values_in_segment(store_));
      if (!store_.apply_mean(contributions_, copies_, helpers(), only_finite_ && !norms,
                             norms ? std::span<const double>(norms->factors) : std::span<const double>()))
        return refuse_nonfinite(step);
    }
    if (norms && quorum_.skips_nonfinite()) {
      if (!update) store_.skip_update(contributions_, helpers());
      store_.update_loss_scales(norms->is_finite);
    }
    stopping_ = stops;
    quorum_.set_stopping(stops);
    history_.complete_step(step);
    for (const std::size_t index : chosen_) {
      worker& each = workers_[index];
      history_.insert(index, step);
      if (stops && stops_after(each)) each.refused = stopped_by_signal;  // ends the wait of workers that are done
    }
    if (decided) {
      for (worker& each : workers_)
        if (each.held.are_of(step)) each.held.drop();
      complete_.clear();
      if (links_.is_first() && links_.decision().step != step)
        links_.announce(step, chosen_);
      else if (!links_.is_first())
        report();
    }
    for (worker& each : workers_) {
      if (!waits(each)) continue;
      const bool is_late = decided && !history_.contains(each.index, step);
      answers_.send_values(each, stop_flag() | (is_late ? static_cast<std::uint32_t>(stale) : 0u), update);
    }
    if (here_.options().on_step) here_.options().on_step(step, chosen_);
    if (after_step_) after_step_();
  }

  // Gradients are in the buffers of the connection, or held.

  placed_gradients gradients_of(const worker& each) const {
    return quorum_.has_decisions() ? each.held.gradients(store_) : each.connection->gradients(store_);
  }
  std::uint32_t examples_of(const worker& each) const {
    return quorum_.has_decisions() ? each.held.weight() : each.connection->request().weight;
  }
  bool stops_after(const worker& each) const {
    return quorum_.has_decisions() ? each.held.stops() : (each.connection->request().flags & stopping) != 0;
  }

  /// Returns true if training ends with the selected gradients. By the default policy the signal of one worker ends it,
  /// as the loss of the worker would. If training survives the loss of a worker, all workers that still train must have
  /// announced a signal.
  bool ends_training() const {
    if (stopping_) return true;
    if (!quorum_.has_decisions())
      return std::any_of(chosen_.begin(), chosen_.end(), [&](std::size_t k) { return stops_after(workers_[k]); });
    return std::all_of(workers_.begin(), workers_.end(), [&](const worker& each) {
      if (std::binary_search(chosen_.begin(), chosen_.end(), each.index)) return stops_after(each);
      return each.announces_stop || each.is_left_out || (each.done && !each.stays);
    });
  }

  /// The number of examples of the worker relative to the first worker with examples in the first step that has any:
  /// half as many examples weigh half as much. An all-reduce uses the same weights.
  double weight_of(const worker& each) {
    const std::uint32_t weight = examples_of(each);
    if (unit_weight_ == 0) unit_weight_ = weight;
    return static_cast<double>(weight) / unit_weight_;
  }

  /// Sends an error to the workers whose gradients are not finite; the others wait for new gradients.
  void refuse_nonfinite(std::int64_t step) {
    bool found = false;
    const auto refuse = [&](worker& each, const error& why) {
      each.held.drop();
      found = true;
      if (each.contributes()) return answers_.fail(each, why);
      if (!quorum_.takes_over()) return;
      for (worker& by : workers_)
        if (by.incarnation == each.holder) by.failure = why;
    };
    // Servers that exchange norms refuse the same gradients, though each sees only its variables: those of all workers.
    for (const std::size_t index : chosen_)
      if (!norms_.are_exchanged() && examples_of(workers_[index]) > 0)
        if (const auto at = store_.find_nonfinite(gradients_of(workers_[index])))
          refuse(workers_[index], nonfinite_refusal(workers_.name(workers_[index]), store_, *at, step));
    if (!found)
      for (const std::size_t index : chosen_) refuse(workers_[index], nonfinite_mean_refusal(step));
    if (norms_.are_needed()) {
      norms_.refuse();
      if (norms_.are_exchanged()) {
        links_.begin_attempt();
        complete_.clear();
      }
    }
    if (quorum_.has_decisions()) report();
  }

  /// Returns threads for a large step, otherwise null. The workers of this host wait while the step is made, so their
  /// cores are free.
  thread_pool* helpers() {
    constexpr std::size_t large = std::size_t{1} << 20;
    if (store_.bytes() < large || contributions_.size() < 2) return nullptr;
    if (!helpers_)
      helpers_ =
          std::make_unique<thread_pool>(static_cast<int>(std::min(available_cores().size(), contributions_.size())));
    return helpers_.get();
  }

  const task_server& here_;
  bool only_finite_;
  worker_roster& workers_;
  worker_quorum& quorum_;
  parameter_store& store_;
  update_history& history_;
  worker_answers& answers_;
  shard_links& links_;
  norm_exchange norms_;
  std::int64_t step_at_work_ = -1;  // step whose norm is being computed
  std::function<void()> after_step_;
  bool is_frozen_ = false;
  bool stopping_ = false;                       // training ends with the last step
  std::uint32_t unit_weight_ = 0;               // number of examples in gradients of weight 1
  std::vector<std::size_t> complete_, chosen_;  // workers whose gradients all servers hold; workers of the step
  std::vector<int> owners_;                     // worker that computes each replica
  std::vector<parameter_store::contribution> contributions_;
  std::vector<placed_bytes<std::byte>> copies_;
  std::unique_ptr<thread_pool> helpers_;
};

}  // namespace weft::detail
