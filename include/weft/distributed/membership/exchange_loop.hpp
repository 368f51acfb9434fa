// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/waiter.hpp>

namespace weft::detail {

/// A process that a task exchanges messages with: the task's rank in the cluster and the process's incarnation.
struct peer_process {
  std::size_t rank = 0;
  std::uint64_t incarnation = 0;
  friend auto operator<=>(const peer_process&, const peer_process&) = default;
};

/// Messages that one thread sends and receives on connections that do not block.
///   advance()        moves the bytes that it can and returns their number; throws errors that end the exchange
///   is_complete()    returns true if nothing is left to do
///   for_each_stream(visit)   calls visit(stream, reads, writes) for each connection to wait for
///   for_each_peer(visit)     calls visit(peer_process, is_partner) for each process whose loss ends the exchange;
///                            partners are the processes that send or receive the next bytes
///   late()           returns the error to throw at the deadline
///   survives_leaving   true if a task that has left can still complete its part
template <typename Exchange>
concept message_exchange = requires(Exchange& exchange) {
  { exchange.advance() } -> std::same_as<std::size_t>;
  { exchange.is_complete() } -> std::same_as<bool>;
  { exchange.late() } -> std::same_as<error>;
  { Exchange::survives_leaving } -> std::convertible_to<bool>;
};

/// Waits on one thread for messages of other tasks. The wait ends when the exchange is complete, or with an error: at
/// its deadline, when a peer is gone, or when this server stops. Meanwhile, the server's own thread receives heartbeats
/// and updates the membership.
class exchange_loop {
 public:
  exchange_loop(task_server& here, wait_policy policy) : here_(here), idle_(here.network(), policy) {}

  /// Performs the exchange. `operation` is the operation of errors. Throws weft::error: exchange.late() at the
  /// deadline, unavailable with the peer that is gone, cancelled if this server stops, and whatever exchange.advance()
  /// throws.
  template <message_exchange Exchange>
  void run(const char* operation, deadline until, Exchange& exchange) {
    idle_.moved();
    left_at_.reset();
    const auto began = detail::now();
    for (;;) {
      const std::size_t moved = exchange.advance();
      if (exchange.is_complete()) return;
      if (until.expired()) throw exchange.late();
      if (moved > 0) {
        idle_.moved();
        left_at_.reset();
        continue;
      }
      items_.clear();
      exchange.for_each_stream([&](const any_transport::stream& stream, bool reads, bool writes) {
        items_.push_back({&stream, reads, writes});
      });
      if (!idle_.pause(items_, until)) continue;
      check(operation, exchange);
      if (reports_waits_ && detail::now() - began > quiet_time) report_wait();
    }
  }

  /// Makes run() report waits for answers that are delayed because workers of this job are lost. Such a loss is not an
  /// error here.
  void report_waits(const std::string& job, std::chrono::milliseconds longest) {
    waits_for_job_ = job;
    longest_wait_ = longest;
    reports_waits_ = true;
  }

 private:
  static constexpr std::chrono::milliseconds quiet_time{100};

  void report_wait() {
    membership& members = here_.members();
    awaited_tasks tasks;
    for (std::size_t rank = 0; rank < members.size(); ++rank)
      if (rank != members.self() && members.task(rank).job == waits_for_job_ && members.has_failed(rank))
        tasks.add_lost(members.task(rank), members.reason(rank));
    members.waits().begin(tasks, longest_wait_, true);
  }

  /// Throws weft::error if the wait cannot succeed.
  template <typename Exchange>
  void check(const char* operation, const Exchange& exchange) {
    const membership& members = here_.members();
    const auto fail = [&](const peer_process& peer) {
      throw members.diagnose(peer.rank, peer.incarnation, operation, "is gone");
    };
    exchange.for_each_peer([&](const peer_process& peer, bool) {
      const task_state state = members.state(peer.rank, peer.incarnation);
      if (state == task_state::lost || (!Exchange::survives_leaving && state != task_state::alive)) fail(peer);
    });
    exchange.for_each_peer([&](const peer_process& peer, bool is_partner) {
      if (is_partner && is_silent_after_leaving(peer)) fail(peer);
    });
    if (here_.stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
  }

  /// Returns true if a task has left, but its connection has delivered nothing and not ended within the heartbeat
  /// timeout: its host may be down.
  bool is_silent_after_leaving(const peer_process& peer) {
    if (here_.members().state(peer.rank, peer.incarnation) != task_state::left) return false;
    if (!left_at_) left_at_ = detail::now();
    return detail::now() - *left_at_ > here_.heartbeat_timeout(peer.rank);
  }

  task_server& here_;
  std::string waits_for_job_;
  std::chrono::milliseconds longest_wait_{0};
  bool reports_waits_ = false;
  waiter idle_;
  std::vector<any_transport::wait_item> items_;
  std::optional<deadline::time_point> left_at_;  // when a peer was first seen to have left; reset by progress
};

}  // namespace weft::detail
