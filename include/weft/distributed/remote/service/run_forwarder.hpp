// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/service/parked_runs.hpp>
#include <weft/distributed/remote/service/run_scheduler.hpp>
#include <weft/distributed/remote/service/run_turns.hpp>
#include <weft/distributed/remote/service/service_peers.hpp>
#include <weft/distributed/remote/service/service_replies.hpp>
#include <weft/distributed/remote/service/service_request.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Sends each run from the first task of a cluster to the other tasks, so that all tasks receive all runs in the same
/// order. All members are thread-safe.
class run_forwarder {
 public:
  run_forwarder(service_peers& peers, parked_runs& runs, run_scheduler& scheduler, service_replies& replies)
      : peers_(peers), runs_(runs), scheduler_(scheduler), replies_(replies) {}

  /// Forwards a run, or sends a reply to another task. Returns false if this task is not connected to a process of the
  /// run yet, and `may_wait` is false.
  bool forward(service_request& next, bool may_wait) {
    if (!next.message) {  // a reply
      peers_.send(next.from, next.header, next.payload, peers_.time_to_answer());
      return true;
    }
    if (!may_wait && !next.meets.expired() && must_wait(next)) return false;
    run_progress progress;
    const run_turn here(forwarding_, progress);
    bool takes_part = false;
    for (std::size_t k = 0; k < next.message->participants.size(); ++k)
      if (next.message->participants[k] == peers_.self())
        takes_part = true;
      else
        send(next, next.message->participants[k], next.message->processes[k]);
    if (takes_part)
      scheduler_.add(std::move(next));
    else
      runs_.end(next.key(), next.client());
    return true;
  }

 private:
  static constexpr std::chrono::seconds time_to_send{10};

  bool must_wait(const service_request& next) {
    const run_message& message = *next.message;
    for (std::size_t k = 0; k < message.participants.size(); ++k) {
      const std::uint32_t t = message.participants[k];
      if (t == peers_.self() || peers_.process_of(t) == message.processes[k]) continue;
      try {
        check(next);
        return true;
      } catch (const error&) {
        return false;  // the run has already failed
      }
    }
    return false;
  }
  void send(const service_request& next, std::uint32_t task, std::uint64_t process) {
    const bool is_own = next.from.rank == peers_.self();
    // A session of this process uses the same processes as this task, and must not wait for one that is gone.
    if (is_own && !peers_.is_there(task, process)) return;
    try {
      const deadline until(time_to_send);
      if (is_own) peers_.await_process(task, process, until, [&] { check(next); });
      peers_.send({task, process}, next.header, next.payload, until);
    } catch (const error& e) {
      // The client may be connected to the task and would wait for it. The end of a cancelled run has already been
      // reported.
      if (!runs_.is_over(next.key())) replies_.post_end(next.client(), next.header, end_message::of(e, false));
    }
  }
  /// Throws if the run was cancelled or its client is gone.
  void check(const service_request& next) {
    const auto box = runs_.find(next.key(), next.from, next.from.rank == peers_.size(),
                                [&](const peer_process& peer) { return peers_.is_gone(peer); });
    if (!box) throw run_was_cancelled();
    box->check();
    peers_.check_client(next.client());
  }

  service_peers& peers_;
  parked_runs& runs_;
  run_scheduler& scheduler_;
  service_replies& replies_;
  run_turns forwarding_;  // taken by the forwarding thread and by sessions of this process
};

}  // namespace weft::detail
