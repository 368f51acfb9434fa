// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/steps/gradient_refusals.hpp>
#include <weft/distributed/parameter/steps/update_history.hpp>
#include <weft/distributed/parameter/steps/worker_quorum.hpp>
#include <weft/distributed/parameter/workers/worker_answers.hpp>
#include <weft/distributed/parameter/workers/worker_roster.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

/// Asynchronous training: applies each worker's gradients on arrival and answers with the new values. If staleness is
/// bounded, the answer waits until the worker is at most that many steps ahead of the slowest one. Invariant: an update
/// is in the history if and only if it is in the values. Not thread-safe: the serving thread owns the object.
class asynchronous_updates {
 public:
  using worker = served_worker;

  asynchronous_updates(const task_server& here, worker_roster& workers, worker_quorum& quorum, parameter_store& store,
                       update_history& history, worker_answers& answers)
      : only_finite_(here.options().not_finite == nonfinite_gradients::refuse),
        workers_(workers),
        quorum_(quorum),
        store_(store),
        history_(history),
        answers_(answers) {}

  /// Applies the gradients of the worker's request, which must be new. `payload_limit` bounds the worker's next
  /// request. Throws weft::error: unavailable if training cannot continue, invalid_argument if the gradients are not
  /// finite and must be.
  void apply(worker& from, std::uint64_t payload_limit) {
    if (const auto broken = quorum_.why_broken()) throw *broken;
    from.is_left_out = false;
    const auto& with = *from.connection;
    const frame_header& asked = with.request();
    if (asked.weight == 0) {  // an empty batch
      history_.insert(from.index, asked.step);
      from.staleness = 0;
      return answer(from, payload_limit, 0, false);
    }
    const placed_gradients gradients = with.gradients(store_);
    if (only_finite_)
      if (const auto found = store_.find_nonfinite(gradients))
        throw nonfinite_refusal(workers_.name(from), store_, *found, asked.step);
    from.staleness =
        static_cast<std::uint32_t>(std::min<std::int64_t>(store_.global_step() - from.values_at, update_notes::max));
    const bool waits = is_ahead(from, std::max(history_.next_step(from.index), history_.following(asked.step)));
    answers_.keep_answers_in_flight();
    copies_.clear();
    if (with.uses_segment() && !waits) copies_.push_back(with.values_in_segment(store_));
    store_.apply(gradients, copies_);
    history_.insert(from.index, asked.step);
    answer(from, payload_limit, 0, !waits);
  }

  /// Answers a request for an update that has been applied.
  void answer_duplicate(worker& from, std::uint64_t payload_limit) { answer(from, payload_limit, duplicate, false); }

  /// Answers the workers that no longer have to wait for slower ones.
  void answer_waiting() {
    if (!quorum_.bounds_staleness()) return;
    for (worker& each : workers_)
      if (each.contributes() && !is_ahead(each)) answers_.send_values(each, flags_of(each));
  }

  /// Names the workers for which this worker's answer waits.
  std::string whom_it_waits_for(const worker& waiting) const {
    const std::int64_t clock = history_.next_step(waiting.index);
    return str_cat({"the answer to step ", waiting.connection->request().step, " still waits for ",
                    workers_.names([&](const worker& each) {
                      return counts(each) && clock - history_.next_step(each.index) > quorum_.max_staleness();
                    })});
  }

 private:
  /// Returns true if other workers wait for this worker.
  static bool counts(const worker& each) {
    return !each.done && !each.is_left_out && !each.given_up && each.refused.empty();
  }

  /// Returns true if the worker is too many steps ahead of another one. A worker's clock is the number of its next
  /// step.
  bool is_ahead(const worker& each) const { return is_ahead(each, history_.next_step(each.index)); }
  bool is_ahead(const worker& each, std::int64_t clock) const {
    if (!quorum_.bounds_staleness()) return false;
    return std::any_of(workers_.begin(), workers_.end(), [&](const worker& other) {
      return &other != &each && counts(other) && clock - history_.next_step(other.index) > quorum_.max_staleness();
    });
  }

  void answer(worker& from, std::uint64_t payload_limit, std::uint32_t flags, bool copied) {
    if (is_ahead(from)) {
      from.is_duplicate = (flags & duplicate) != 0;
      return from.connection->park(payload_limit);
    }
    answers_.send_values(from, flags, copied);
  }
  static std::uint32_t flags_of(const worker& each) {
    return each.is_duplicate ? static_cast<std::uint32_t>(duplicate) : 0u;
  }

  bool only_finite_;
  worker_roster& workers_;
  worker_quorum& quorum_;
  parameter_store& store_;
  update_history& history_;
  worker_answers& answers_;
  std::vector<placed_bytes<std::byte>> copies_;
};

}  // namespace weft::detail
