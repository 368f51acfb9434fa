// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/server_state.hpp>
#include <weft/distributed/parameter/steps/gradient_refusals.hpp>
#include <weft/distributed/parameter/steps/synchronous_steps.hpp>
#include <weft/distributed/parameter/steps/update_history.hpp>
#include <weft/distributed/parameter/workers/worker_answers.hpp>
#include <weft/distributed/parameter/workers/worker_roster.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// One parameter server's share of a checkpoint: its values and slots, the step, and the update history. Saves the
/// share at any time and restores it before training begins.
///
/// Invariant: no checkpoint is restored once is_settled() is true. Not thread-safe: the serving thread owns the object.
class shard_checkpoint {
 public:
  using worker = served_worker;

  shard_checkpoint(worker_roster& workers, parameter_store& store, update_history& history, synchronous_steps& steps,
                   worker_answers& answers)
      : workers_(workers), store_(store), history_(history), steps_(steps), answers_(answers) {}

  /// Returns true if the chief has restored a checkpoint, or found none.
  bool is_settled() const { return is_settled_; }
  /// Settles the checkpoint because earlier training, which was settled, continues.
  void settle() { is_settled_ = true; }

  /// Answers with the state of one moment. If the state changes while it is sent, the unsent rest is copied first.
  void save(worker& to) {
    if (!store_.initialised()) throw uninitialised_refusal();
    std::vector<const_bytes> pieces;
    state_end end;
    store_.find_state(pieces, end.scalars);
    end.place.global_step = store_.global_step();
    end.place.unit = steps_.unit_weight();
    history_.save(end.place);
    answers_.send_state(to, std::move(end).bytes(workers_.size()), std::move(pieces));
  }

  /// Restores the checkpoint in the chief's request; an empty payload means that there is none. A restarted chief
  /// changes nothing: training continues. Returns flags for the answer. Throws weft::error: invalid_argument for a
  /// worker that is not the chief or for a damaged checkpoint, failed_precondition if `trains(worker)` is true for any
  /// worker.
  template <typename Predicate>
  std::uint32_t restore(worker& from, Predicate trains) {
    if (!workers_.is_chief(from))
      throw error(error_code::invalid_argument, "restore",
                  {workers_.name(from), " is not the chief; only the chief can restore a checkpoint"});
    if (is_settled_) return duplicate;
    for (const worker& each : workers_)
      if (trains(each))
        throw error(error_code::failed_precondition, "restore",
                    "a worker already trains without the checkpoint; in every worker, create a supervised session with "
                    "saved_in() before the first step");
    if (const const_bytes payload = from.connection->payload(); !payload.empty()) {
      const auto end = state_end::read(payload.subspan(store_.state_bytes()), store_.scalar_slots(), workers_.size());
      answers_.keep_answers_in_flight();
      store_.restore(payload.first(store_.state_bytes()), end.scalars, end.place.global_step);
      history_.restore(end.place);
      steps_.restore_unit_weight(end.place.unit);
      from.connection->free_payload();
    }
    is_settled_ = true;
    return 0;
  }

 private:
  worker_roster& workers_;
  parameter_store& store_;
  update_history& history_;
  synchronous_steps& steps_;
  worker_answers& answers_;
  bool is_settled_ = false;
};

}  // namespace weft::detail
