// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/remote/receiving_role.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/waiter.hpp>

namespace weft::detail {

/// Receives on all connections of a process, in the thread that has the role. An `Incoming` has a `stream`. The
/// `Owner` has, for the thread that receives:
///
///   stopping()          returns true to end all loops
///   take_new()          passes newly opened connections to add()
///   advance(incoming)   receives the bytes that have arrived; returns true if there were any
///   lose(incoming)      called if a connection has ended or advance() has thrown; does not throw
template <typename Owner, typename Incoming>
class receiving_loop {
 public:
  /// `bell` wakes the thread that receives.
  receiving_loop(Owner& owner, any_transport::signal& bell, waiter idle)
      : owner_(owner), bell_(bell), idle_(std::move(idle)) {}

  /// Receives in this thread until `done()` returns true, at most for `time`. Returns false at once if another thread
  /// keeps the role, and also if the owner stops. Another thread that makes done() true must call wake().
  template <typename Done>
  bool receive_until(urgency mine, std::chrono::nanoseconds time, Done done) {
    if (!role_.acquire(mine, [this] { bell_.notify(); })) return false;
    const typename receiving_role::holding ends{role_};
    receive(deadline(time), done);
    return !owner_.stopping();
  }
  /// For the connections' own thread: receives while no other thread does, at most until the deadline.
  void receive_when_idle(deadline until) {
    if (!role_.acquire_when_idle(std::chrono::milliseconds(50))) return;
    const typename receiving_role::holding ends{role_};
    receive(until, [] { return false; });
  }
  void wake() {
    if (role_.is_asleep()) bell_.notify();
  }
  void add(std::unique_ptr<Incoming> connection) { all_.push_back(std::move(connection)); }

 private:
  template <typename Done>
  void receive(deadline until, Done done) {
    idle_.moved();
    while (!owner_.stopping() && !role_.must_yield() && !done()) {
      const bool moved = receive_once();
      if (until.expired()) return;
      if (moved) {
        idle_.moved();
        continue;
      }
      items_.clear();
      items_.push_back({&bell_, true, false});
      for (const auto& each : all_) items_.push_back({&each->stream, true, false});
      const typename receiving_role::sleeping now(role_);
      if (!role_.must_yield() && !done() && idle_.pause(items_, until)) bell_.clear();
    }
  }
  bool receive_once() {
    owner_.take_new();
    bool moved = false;
    for (std::size_t k = all_.size(); k-- > 0;) try {
        moved = owner_.advance(*all_[k]) || moved;
      } catch (const std::exception&) {  // closed, malformed, or no memory: lose() informs the waiting threads
        owner_.lose(*all_[k]);
        all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(k));
      }
    return moved;
  }

  Owner& owner_;
  any_transport::signal& bell_;
  receiving_role role_;
  // For the thread that has the role.
  std::vector<std::unique_ptr<Incoming>> all_;
  waiter idle_;
  std::vector<any_transport::wait_item> items_;
};

}  // namespace weft::detail
