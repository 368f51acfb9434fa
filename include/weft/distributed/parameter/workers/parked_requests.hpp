// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <optional>
#include <string>

#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/shards/shard_checkpoint.hpp>
#include <weft/distributed/parameter/steps/asynchronous_updates.hpp>
#include <weft/distributed/parameter/steps/synchronous_steps.hpp>
#include <weft/distributed/parameter/steps/worker_quorum.hpp>
#include <weft/distributed/parameter/workers/worker_answers.hpp>
#include <weft/distributed/parameter/workers/worker_roster.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Answers the requests that wait for first values, a checkpoint, the end of the other workers, or a step. A request
/// that waits in vain gets an error that names the worker for which it waits. Has no state of its own: a parked request
/// is in its worker's connection. Not thread-safe: the serving thread owns the object.
class parked_requests {
 public:
  using worker = served_worker;

  parked_requests(worker_roster& workers, worker_quorum& quorum, const parameter_store& store,
                  const synchronous_steps& steps, const asynchronous_updates& updates, shard_checkpoint& checkpoint,
                  worker_answers& answers)
      : members_(workers.members()),
        workers_(workers),
        quorum_(quorum),
        store_(store),
        steps_(steps),
        updates_(updates),
        checkpoint_(checkpoint),
        answers_(answers) {}

  /// Answers the requests that wait for the first values of the variables.
  void answer_initialised() {
    for (worker& each : workers_) {
      if (!each.is_parked()) continue;
      if (each.connection->asks_for(frame_kind::pull)) {
        if (each.connection->request().step <= steps_.next_step()) answers_.send_values(each);
      } else if (each.connection->asks_for(frame_kind::await_values) ||
                 (each.connection->asks_for(frame_kind::await_restore) && checkpoint_.is_settled()))
        answers_.acknowledge(each);
    }
  }

  /// Answers the requests that wait for values, or a checkpoint, of the next step. Called after a step is made.
  void answer_next_step() {
    for (worker& each : workers_) {
      if (!each.is_parked() || each.connection->request().step > steps_.next_step() || !store_.initialised()) continue;
      if (each.connection->asks_for(frame_kind::pull))
        answers_.send_values(each);
      else if (each.connection->asks_for(frame_kind::state))
        checkpoint_.save(each);
    }
  }

  /// Answers a worker that waits for the others once they have ended, or with an error if training cannot continue.
  void end_wait_for_others(worker& from) {
    if (const auto broken = quorum_.why_broken()) {
      from.done = from.stays = false;
      answers_.fail(from, *broken);
    } else if (workers_.have_others_ended(from)) {
      answers_.acknowledge(from);
    }
  }

  /// Answers the worker's request if it waits in vain. `broken`: why training cannot continue, if it cannot.
  void expire(worker& each, const std::optional<error>& broken) {
    if (!each.is_parked()) return;
    if (each.connection->asks_for(frame_kind::await_others)) end_wait_for_others(each);
    if (!each.is_parked()) return;
    const auto& expires = each.connection->expires();
    if (broken)
      answers_.fail(each, *broken);
    else if (const std::string why = why_uninitialised(each); !why.empty())
      answers_.fail(each, error(error_code::unavailable, "parameter_server", why));
    else if (expires && expires->expired())
      answers_.fail(each, error(error_code::deadline_exceeded, "parameter_server", whom_it_waits_for(each)));
  }

 private:
  /// Why the variables for which this worker waits will get no values; empty if they have values or may still get them.
  std::string why_uninitialised(const worker& waiting) {
    const worker& chief = workers_.chief();
    const task_state state = members_.state(chief.rank);
    const bool restores = waiting.connection->asks_for(frame_kind::await_restore) && !checkpoint_.is_settled();
    if ((store_.initialised() && !restores) || (state != task_state::left && state != task_state::lost) ||
        quorum_.is_awaited(chief))
      return {};
    return str_cat({"the chief, ", workers_.name(chief), ", ", members_.reason(chief.rank), ", before it ",
                    restores ? "restored its checkpoint" : "initialized the variables"});
  }

  std::string whom_it_waits_for(const worker& waiting) const {
    const auto& with = *waiting.connection;
    if (with.asks_for(frame_kind::await_restore))
      return str_cat({"the chief, ", workers_.name(workers_.chief()),
                      ", has neither restored a checkpoint in time nor reported that none exists"});
    if (with.asks_for(frame_kind::await_others))
      return str_cat({"the last checkpoint still waits for ", workers_.names([&](const worker& each) {
                        return &each != &waiting && !workers_.has_ended(each);
                      })});
    const bool trains = with.asks_for(frame_kind::push_pull) || with.asks_for(frame_kind::await_step);
    if (store_.initialised() && !trains)
      return str_cat(
          {"step ", steps_.next_step(), " is not complete; values of step ", with.request().step, " were requested"});
    if (!trains)
      return str_cat({"the chief, ", workers_.name(workers_.chief()), ", has not initialized the variables in time"});
    if (!quorum_.is_synchronous()) return updates_.whom_it_waits_for(waiting);
    return str_cat({"step ", with.request().step, " still waits for ", steps_.whom_it_waits_for()});
  }

  membership& members_;
  worker_roster& workers_;
  worker_quorum& quorum_;
  const parameter_store& store_;
  const synchronous_steps& steps_;
  const asynchronous_updates& updates_;
  shard_checkpoint& checkpoint_;
  worker_answers& answers_;
};

}  // namespace weft::detail
