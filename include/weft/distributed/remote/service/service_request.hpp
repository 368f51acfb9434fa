// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/service/parked_runs.hpp>
#include <weft/distributed/remote/service/request_limits.hpp>
#include <weft/distributed/remote/service/run_turns.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/error.hpp>
#include <weft/transport/frame.hpp>

namespace weft::detail {

/// A request to a task: a run of a step, a read or a write of a variable, a reset, or the end of a run.
struct service_request {
  peer_process from;
  frame_header header;
  std::vector<std::byte> payload;
  std::shared_ptr<const run_message> message = {};  // null unless the request is a run
  run_progress progress{};
  request_limits::ticket admitted = {};
  deadline meets{std::chrono::seconds(10)};  // time to connect to the processes of a forwarded run
  deadline::duration stalled_before{};       // run_scheduler's count when the request joined the queue

  /// Returns the process that waits for the end of the request. For a run that the first task forwarded, this is not
  /// the sender.
  peer_process client() const { return message ? client_of(*message) : from; }
  run_key key() const { return {header.tag, header.step}; }

  static peer_process client_of(const run_message& message) {
    return {message.client_rank, message.client_incarnation};
  }
};

/// The error of requests that a service does not serve any more. The requester adds the name of the task.
inline error service_has_ended() {
  return error(error_code::unavailable, "step", "this task's graph_service has ended");
}
inline error run_was_cancelled() { return error(error_code::aborted, "step", "the run was cancelled"); }

}  // namespace weft::detail
