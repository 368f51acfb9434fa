// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft {

namespace detail {

/// Channels that tasks have opened and no thread has taken yet. Thread-safe.
class channel_inbox {
 public:
  using channel = peer_channel;
  using moment = deadline::time_point;

  explicit channel_inbox(const membership& members) : members_(members) {}

  /// Takes the next channel of this name from any task. Returns false if there is none.
  bool take(const std::string& name, channel& taken) {
    if (size_.load(std::memory_order_acquire) == 0) return false;
    std::lock_guard lock(mutex_);
    return take_if(taken, [&](const entry& each) { return each.name == name; });
  }

  /// The same for channels whose names begin with `prefix`.
  bool take_of_prefix(const std::string& prefix, channel& taken) {
    if (size_.load(std::memory_order_acquire) == 0) return false;
    std::lock_guard lock(mutex_);
    return take_if(taken, [&](const entry& each) { return each.name.starts_with(prefix); });
  }

  /// Calls visit(rank, incarnation, name) for each waiting channel.
  template <typename Visit>
  void for_each(Visit visit) const {
    if (size_.load(std::memory_order_acquire) == 0) return;
    std::lock_guard lock(mutex_);
    for (const entry& each : entries_) visit(each.rank, each.incarnation, each.name);
  }

  /// Waits for the task with this rank to open the channel `name`. Throws weft::error: deadline_exceeded, unavailable
  /// with the task's name, cancelled after stop().
  channel wait_for(std::size_t rank, const std::string& name, deadline until) {
    const std::string operation = str_cat({"wait for ", to_string(members_.task(rank))});
    std::uint64_t awaited = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      if (awaited == 0) awaited = members_.incarnation(rank);
      channel found;
      if (take_if(found, [&](const entry& each) { return each.rank == rank && each.name == printable(name); }))
        return found;
      const task_state state = members_.state(rank, awaited);
      if (state == task_state::lost || state == task_state::left)
        throw members_.diagnose(rank, awaited, operation, "is gone");
      if (stopped_) throw error(error_code::cancelled, operation, "this server was stopped");
      if (until.expired())
        throw error(error_code::deadline_exceeded, operation, {"it has not opened its channel '", name, "' in time"});
      detail::sleep(changed_, lock, std::chrono::milliseconds(20));
    }
  }

  /// Adds a channel and removes an older one of the same task and name. `until`: the deadline of its opener.
  void put(channel opened, const std::string& name, moment until) {
    {
      std::lock_guard lock(mutex_);
      // A channel that its opener has abandoned can arrive after the opener's next one.
      const auto is_same = [&](const entry& old) { return old.rank == opened.rank && old.name == name; };
      if (std::any_of(entries_.begin(), entries_.end(), [&](const entry& other) {
            return is_same(other) && other.incarnation == opened.incarnation && other.number > opened.number;
          }))
        return;
      entries_.remove_if(is_same);
      entries_.push_back({std::move(opened), name, until});
      size_ = entries_.size();
    }
    notify();
  }

  // ---- clients ----

  void put_client(client_channel opened, moment until) {
    const std::lock_guard lock(mutex_);
    clients_.push_back({std::move(opened), until});
    client_count_ = clients_.size();
  }
  bool take_client(client_channel& taken) {
    if (client_count_.load(std::memory_order_acquire) == 0) return false;
    const std::lock_guard lock(mutex_);
    if (clients_.empty()) return false;
    taken = std::move(clients_.front().first);
    clients_.pop_front();
    client_count_ = clients_.size();
    return true;
  }
  std::size_t count_clients() const { return client_count_.load(std::memory_order_acquire); }

  /// Returns the number of waiting channels of this task with other names.
  std::size_t count_others(std::size_t rank, const std::string& name) const {
    std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(
        entries_.begin(), entries_.end(), [&](const entry& each) { return each.rank == rank && each.name != name; }));
  }

  /// Drops channels whose opener no longer waits, is gone, or has been replaced.
  void drop_stale(moment now) {
    if (client_count_.load(std::memory_order_relaxed) > 0) {
      const std::lock_guard lock(mutex_);
      clients_.remove_if([&](const auto& each) { return now >= each.second; });
      client_count_ = clients_.size();
    }
    if (size_.load(std::memory_order_relaxed) == 0) return;
    std::lock_guard lock(mutex_);
    entries_.remove_if([&](const entry& each) {
      const task_state state = members_.state(each.rank);
      const bool is_newest = members_.incarnation(each.rank) == each.incarnation;
      return now >= each.until ||
             (is_newest ? state == task_state::left || state == task_state::lost : state == task_state::alive);
    });
    size_ = entries_.size();
  }

  /// Wakes waiting threads when a peer's state has changed.
  void notify() { changed_.notify_all(); }
  void stop() {
    stopped_ = true;
    notify();
  }
  void clear() {
    std::lock_guard lock(mutex_);
    entries_.clear();
    clients_.clear();
    client_count_ = 0;
    size_ = 0;
  }

 private:
  struct entry : channel {
    std::string name;
    moment until;
  };

  template <typename Fits>
  bool take_if(channel& to, Fits fits) {
    for (auto each = entries_.begin(); each != entries_.end(); ++each) {
      if (!fits(*each) || !members_.alive(each->rank, each->incarnation)) continue;
      to = std::move(static_cast<channel&>(*each));
      entries_.erase(each);
      size_ = entries_.size();
      return true;
    }
    return false;
  }

  const membership& members_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<entry> entries_;
  std::list<std::pair<client_channel, moment>> clients_;
  std::atomic<std::size_t> size_{0}, client_count_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace detail
}  // namespace weft
