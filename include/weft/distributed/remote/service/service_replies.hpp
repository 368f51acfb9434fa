// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/service/run_scheduler.hpp>
#include <weft/distributed/remote/service/service_peers.hpp>
#include <weft/distributed/remote/service/service_request.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/error.hpp>
#include <weft/transport/frame.hpp>

namespace weft::detail {

/// Sends replies to the processes that request steps from a task. All members are thread-safe.
class service_replies {
 public:
  service_replies(service_peers& peers, run_scheduler& scheduler) : peers_(peers), scheduler_(scheduler) {}

  /// Sends the end of a run or of another request.
  void send_end(const peer_process& to, const frame_header& asked, const end_message& how) {
    peers_.send(to, end_header(asked), how.bytes(), peers_.time_to_answer());
  }
  void send_value(const peer_process& to, const frame_header& asked, const_bytes value) {
    peers_.send(to, value_header(asked), value, peers_.time_to_answer());
  }
  /// Like send_end(), but does not wait for the other process, which may have ended. For the thread that receives.
  void post_end(const peer_process& to, const frame_header& asked, const end_message& how) {
    post(to, end_header(asked), how.bytes());
  }
  void post_value(const peer_process& to, const frame_header& asked, std::vector<std::byte> value) {
    post(to, value_header(asked), std::move(value));
  }

 private:
  frame_header value_header(const frame_header& asked) const {
    frame_header header;
    header.kind = frame_kind::transfer;
    header.tag = asked.tag;
    header.step = asked.step;
    header.request = peers_.size();
    return header;
  }
  static frame_header end_header(const frame_header& asked) {
    frame_header header;
    header.kind = frame_kind::step_ended;
    header.tag = asked.tag;
    header.step = asked.step;
    return header;
  }
  /// The thread that forwards sends replies to other tasks, because a send may have to open a connection.
  void post(const peer_process& to, const frame_header& header, std::vector<std::byte> payload) try {
    if (to.rank == peers_.size()) return peers_.channels().post_to_client(to.incarnation, header, std::move(payload));
    if (to.rank == peers_.self()) return peers_.send(to, header, payload, peers_.time_to_answer());
    // The limits of the receiver's own requests do not apply: the reply may be that a request exceeds them.
    scheduler_.forward({to, header, std::move(payload)});
  } catch (const error&) {  // the receiver is gone or does not read; the requester may be another process
  }

  service_peers& peers_;
  run_scheduler& scheduler_;
};

}  // namespace weft::detail
