#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <weft/device/cpu/thread_pool.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/parameter/gradient_refusals.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/update_history.hpp>
#include <weft/distributed/parameter/worker_answers.hpp>
#include <weft/distributed/parameter/worker_quorum.hpp>
#include <weft/distributed/parameter/worker_roster.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

/// Synchronous training: one barrier for all variables of a step. The requests of the workers are parked until all that
/// are not done have brought their gradients; then the mean is applied and all are answered.
///
/// Invariant: all parked updates have the same step number. Not locked: the serving thread owns it.
template <typename Server>
class synchronous_steps {
 public:
  using worker = served_worker<Server>;

  synchronous_steps(const Server& here, worker_roster<Server>& workers, worker_quorum<Server>& quorum,
                    parameter_store& store, update_history& history, worker_answers<Server>& answers)
      : only_finite_(here.options().not_finite == nonfinite_gradients::refuse),
        workers_(workers),
        quorum_(quorum),
        store_(store),
        history_(history),
        answers_(answers) {}

  /// Adds a worker's gradients to the step. `payload_limit` bounds its next request. Throws weft::error: unavailable
  /// where training cannot go on, aborted where the worker is ahead of the others.
  void contribute(worker& from, std::uint64_t payload_limit) {
    if (const auto broken = quorum_.why_broken()) throw *broken;
    const std::int64_t step = from.connection->request().step;
    // A worker that is ahead of the others has left out a step; they have done nothing wrong.
    for (worker& other : workers_) {
      if (&other == &from || !other.contributes()) continue;
      const std::int64_t its = other.connection->request().step;
      if (its < step) throw ahead_refusal(workers_.name(from), step, workers_.name(other), its);
      if (its > step) answers_.fail(other, ahead_refusal(workers_.name(other), its, workers_.name(from), step));
    }
    from.connection->park(payload_limit);
    complete();
  }

  /// Makes the step if all workers that are not done have contributed.
  void complete() {
    contributions_.clear();
    copies_.clear();
    bool any = false, stops = stopping_;
    for (worker& each : workers_) {
      if (!each.contributes() && !each.done) return;
      any = any || each.contributes();
      stops = stops || (each.contributes() && (each.connection->request().flags & stopping));
      if (has_examples(each)) contributions_.push_back({each.connection->gradients(store_), weight_of(each)});
    }
    if (!any) return;
    const bool update = !contributions_.empty();
    if (update) {
      answers_.keep_answers_in_flight();
      for (worker& each : workers_)
        if (each.contributes() && each.connection->uses_segment())
          copies_.push_back(each.connection->values_in_segment(store_));
      if (!store_.apply_mean(contributions_, copies_, helpers(), only_finite_)) return refuse_nonfinite();
    }
    stopping_ = stops;
    for (worker& each : workers_) {
      if (!each.contributes()) continue;
      const frame_header& asked = each.connection->request();
      history_.complete_step(asked.step);
      history_.insert(each.index, each.incarnation, asked.step);
      if (asked.flags & stopping) each.refused = stopped_by_signal;  // those that are done hear of it
      answers_.send_values(each, stop_flag(), update);
    }
  }

  /// The flag that tells workers in the answer to an update that training ends with the last step; 0 where it does not.
  std::uint32_t stop_flag() const { return stopping_ ? static_cast<std::uint32_t>(stopping) : 0u; }

  /// Of how many examples the gradients that count 1 are the mean; 0: not known yet.
  std::uint32_t unit_weight() const { return unit_weight_; }
  void restore_unit_weight(std::uint32_t unit) { unit_weight_ = unit; }

 private:
  /// Whether a worker brings gradients to a step that are the mean of something.
  static bool has_examples(const worker& each) { return each.contributes() && each.connection->request().weight != 0; }

  /// The worker's number of examples relative to that of the first worker in the first step that has any: a worker with
  /// half as many counts half. In an all-reduce it is the same.
  double weight_of(const worker& each) {
    const std::uint32_t weight = each.connection->request().weight;
    if (unit_weight_ == 0) unit_weight_ = weight;
    return static_cast<double>(weight) / unit_weight_;
  }

  /// Tells those whose gradients they were; the others go on waiting for better ones.
  void refuse_nonfinite() {
    bool found = false;
    for (worker& each : workers_)
      if (has_examples(each))
        if (const auto at = store_.find_nonfinite(each.connection->gradients(store_))) {
          answers_.fail(each, nonfinite_refusal(workers_.name(each), store_, *at, each.connection->request().step));
          found = true;
        }
    if (found) return;
    for (worker& each : workers_)
      if (each.contributes()) answers_.fail(each, nonfinite_mean_refusal(each.connection->request().step));
  }

  /// Threads for a large step. The workers of this host that wait while it is made leave their cores free.
  thread_pool* helpers() {
    constexpr std::size_t large = std::size_t{1} << 20;
    if (store_.bytes() < large || contributions_.size() < 2) return nullptr;
    if (!helpers_)
      helpers_ =
          std::make_unique<thread_pool>(static_cast<int>(std::min(available_cores().size(), contributions_.size())));
    return helpers_.get();
  }

  bool only_finite_;
  worker_roster<Server>& workers_;
  worker_quorum<Server>& quorum_;
  parameter_store& store_;
  update_history& history_;
  worker_answers<Server>& answers_;
  bool stopping_ = false;          // training ends with the last step, for a worker stops
  std::uint32_t unit_weight_ = 0;  // the number of examples that counts 1
  std::vector<parameter_store::contribution> contributions_;
  std::vector<placed_bytes<std::byte>> copies_;
  std::unique_ptr<thread_pool> helpers_;
};

}  // namespace weft::detail
