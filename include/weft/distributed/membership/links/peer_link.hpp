// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/transport/message_stream.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// A connection to another task that is opened again after a failure, and its outgoing messages. States are sent again
/// on every new connection, in their newest form; other messages are lost with their connection. Not thread-safe.
class peer_link : public message_stream {
 public:
  /// `states`: the kinds of the states, in the order in which they are sent.
  explicit peer_link(std::size_t rank, std::initializer_list<frame_kind> states = {},
                     std::uint64_t max_bytes = max_control_bytes);

  std::size_t rank() const { return rank_; }
  /// The incarnation at the other end of the present or last connection; 0: none yet.
  std::uint64_t incarnation() const { return incarnation_; }

  /// Replaces the connection. Returns false, and drops the new connection, if it is the older one.
  bool take(peer_channel opened);
  /// Opens the channel unless it is open, or an attempt has failed a moment ago. Blocks for at most `within`. Returns
  /// true if the channel is open.
  bool open(task_server& here, const std::string& channel, std::chrono::milliseconds within);
  /// Closes the connection. open() then makes no attempt for a moment.
  void drop();

  /// Sets the state that messages of this kind describe.
  void set(frame_kind kind, std::vector<std::byte> payload, std::uint64_t tag = 0);
  /// Sends no more messages of this kind.
  void reset(frame_kind kind);
  /// Sends a message once. Drops it if too many are queued.
  void post(frame_kind kind, std::vector<std::byte> payload);
  void clear_posted() { posted_.clear(); }
  bool has_posted() const { return !posted_.empty(); }
  /// Returns true if the peer is not connected or has been sent everything.
  bool has_said_all() const;

  /// Sends due states, then messages. Returns true if bytes have left.
  bool say();

 private:
  static constexpr std::size_t max_posted = 64;

  struct state {
    frame_header header;
    std::vector<std::byte> payload;
    bool is_set = false, is_due = false;
  };

  state& state_of(frame_kind kind);
  bool start_next();

  std::size_t rank_;
  std::uint64_t incarnation_ = 0, number_ = 0;
  std::vector<state> states_;
  std::deque<std::pair<frame_kind, std::vector<std::byte>>> posted_;
  deadline::time_point again_{};  // the time of the next attempt of open()
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL peer_link::peer_link(std::size_t rank, std::initializer_list<frame_kind> states,
                                           std::uint64_t max_bytes)
    : message_stream(max_bytes), rank_(rank) {
  for (const frame_kind kind : states) states_.emplace_back().header.kind = kind;
}

WEFT_DISTRIBUTED_DECL bool peer_link::take(peer_channel opened) {
  if (opened.incarnation == incarnation_ && opened.number < number_) return false;
  incarnation_ = opened.incarnation;
  number_ = opened.number;
  attach(std::move(opened.stream));
  for (state& each : states_) each.is_due = each.is_set;
  return true;
}

WEFT_DISTRIBUTED_DECL bool peer_link::open(task_server& here, const std::string& channel,
                                           std::chrono::milliseconds within) {
  if (is_open() || detail::now() < again_) return is_open();
  try {
    take(here.open_channel(rank_, channel, deadline(within)));
  } catch (const error&) {  // heartbeats decide whether the peer is lost
    again_ = detail::now() + std::chrono::milliseconds(100);
  }
  return is_open();
}

WEFT_DISTRIBUTED_DECL void peer_link::drop() {
  attach({});
  again_ = detail::now() + std::chrono::milliseconds(20);
}

WEFT_DISTRIBUTED_DECL peer_link::state& peer_link::state_of(frame_kind kind) {
  return *std::find_if(states_.begin(), states_.end(), [&](const state& each) { return each.header.kind == kind; });
}

WEFT_DISTRIBUTED_DECL void peer_link::set(frame_kind kind, std::vector<std::byte> payload, std::uint64_t tag) {
  state& newest = state_of(kind);
  newest.header.tag = tag;
  newest.payload = std::move(payload);
  newest.is_set = newest.is_due = true;
}

WEFT_DISTRIBUTED_DECL void peer_link::reset(frame_kind kind) {
  state& old = state_of(kind);
  old.is_set = old.is_due = false;
}

WEFT_DISTRIBUTED_DECL void peer_link::post(frame_kind kind, std::vector<std::byte> payload) {
  if (posted_.size() < max_posted) posted_.emplace_back(kind, std::move(payload));
}

WEFT_DISTRIBUTED_DECL bool peer_link::has_said_all() const {
  return !is_open() || (!is_sending() && posted_.empty() &&
                        std::none_of(states_.begin(), states_.end(), [](const state& each) { return each.is_due; }));
}

WEFT_DISTRIBUTED_DECL bool peer_link::start_next() {
  for (state& each : states_)
    if (std::exchange(each.is_due, false)) {
      start(each.header, each.payload);
      return true;
    }
  if (posted_.empty()) return false;
  frame_header header;
  header.kind = posted_.front().first;
  start(header, std::move(posted_.front().second));
  posted_.pop_front();
  return true;
}

WEFT_DISTRIBUTED_DECL bool peer_link::say() {
  bool moved = false;
  while (is_sending() || start_next()) {
    moved |= send() > 0;
    if (is_sending()) break;
  }
  return moved;
}

#endif

}  // namespace weft::detail
