// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// A run of a step: the client's session, and the run's number in it.
struct run_key {
  std::uint64_t session;
  std::int64_t number;
  friend auto operator<=>(const run_key&, const run_key&) = default;
};

/// The mailboxes of the runs that a task serves. The first message of a run creates its mailbox; it can be a value that
/// arrives before the request. All members are thread-safe.
class parked_runs {
 public:
  using box_type = mailbox;

  static constexpr std::size_t max_of_client = 256, max_of_task = 1024;  // runs without a request
  static constexpr std::size_t max_finished = 8192;

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return runs_.size();
  }

  /// Returns the mailbox of a run, or null if the run has ended. `from`: the sender of a message for the run. If a
  /// client has too many runs without a request, throws resource_exhausted. If a task has too many, drops its oldest
  /// such run, because clients determine what a task sends.
  template <typename Gone>
  std::shared_ptr<box_type> find(const run_key& key, const peer_process& from, bool is_client, Gone is_gone) {
    const std::lock_guard lock(mutex_);
    if (const auto run = runs_.find(key); run != runs_.end()) return run->second.box;
    if (has_finished(key)) return nullptr;
    const auto counts = [&](const auto& run) { return !run.second.is_asked_for && run.second.from == from; };
    const auto count = [&] { return static_cast<std::size_t>(std::count_if(runs_.begin(), runs_.end(), counts)); };
    const std::size_t most = is_client ? max_of_client : max_of_task;
    if (count() >= most) drop_all_orphans(is_gone);
    if (count() >= most) {
      if (is_client)
        throw error(error_code::resource_exhausted, "step",
                    "too many values arrived for runs that no client has requested");
      auto oldest = runs_.end();
      for (auto each = runs_.begin(); each != runs_.end(); ++each)
        if (counts(*each) && (oldest == runs_.end() || each->second.keep.at() < oldest->second.keep.at()))
          oldest = each;
      drop(oldest);
    }
    run& made = runs_[key];
    made.from = from;
    return made.box;
  }
  /// A request of a client for a run has arrived. The run's mailbox stays until end().
  void ask(const run_key& key, const peer_process& client) {
    const std::lock_guard lock(mutex_);
    if (has_finished(key)) return;
    run& asked = runs_[key];
    asked.is_asked_for = true;
    asked.client = client;
  }
  /// Returns true for a run that has a mailbox but no request.
  bool is_unasked(const run_key& key) const {
    const std::lock_guard lock(mutex_);
    const auto run = runs_.find(key);
    return run != runs_.end() && !run->second.is_asked_for;
  }
  /// Returns true if the run was cancelled or has ended.
  bool is_over(const run_key& key) const {
    const std::lock_guard lock(mutex_);
    const auto run = runs_.find(key);
    return run == runs_.end() ? has_finished(key) : run->second.box->was_cancelled();
  }
  /// A run of a client has ended. Values for the run that arrive later are dropped.
  void end(const run_key& key, const peer_process& client) {
    const std::lock_guard lock(mutex_);
    finished& last = add_finished(key.session);
    last.number = std::max(last.number, key.number);
    last.client = client;
    last.keep = deadline(std::chrono::seconds(60));
    // Also drops the mailboxes of earlier runs without a request. A run that still waits keeps its mailbox until it
    // ends, because values may be arriving in its memory.
    for (auto each = runs_.lower_bound({key.session, INT64_MIN});
         each != runs_.end() && each->first.session == key.session;) {
      const bool ends = each->first == key || (each->first.number < key.number && !each->second.is_asked_for);
      each = ends ? drop(each) : std::next(each);
    }
  }
  /// A session has ended. Cancels its runs, and drops messages for them that arrive later.
  void end_session(std::uint64_t session, const error& why) {
    const std::lock_guard lock(mutex_);
    bool is_known = false;
    for (auto each = runs_.lower_bound({session, INT64_MIN}); each != runs_.end() && each->first.session == session;) {
      is_known = true;
      each->second.box->cancel(why);
      each = each->second.is_asked_for ? std::next(each) : drop(each);
    }
    if (!is_known && finished_.count(session) == 0) return;
    finished& last = add_finished(session);
    last.number = every_run;
    last.keep = deadline(std::chrono::seconds(60));
  }

  /// Drops what remains of processes that have ended, and runs whose requests are overdue.
  template <typename Gone>
  void drop_orphans(Gone is_gone) {
    const std::lock_guard lock(mutex_);
    drop_all_orphans(is_gone);
  }

  void fail_all(const error& why) {
    const std::lock_guard lock(mutex_);
    for (auto& each : runs_) each.second.box->fail(why);
  }
  /// Cancels the runs of a client, including runs for which only values have arrived.
  void cancel_of(const peer_process& client, const error& why) {
    const std::lock_guard lock(mutex_);
    for (auto& each : runs_) {
      const run& one = each.second;
      if ((one.is_asked_for ? one.client : one.from) == client) one.box->cancel(why);
    }
  }

 private:
  struct run {
    std::shared_ptr<box_type> box = std::make_shared<box_type>();
    peer_process from;    // sender of the first message
    peer_process client;  // sender of the request
    bool is_asked_for = false;
    deadline keep{std::chrono::seconds(60)};
  };
  static constexpr std::int64_t every_run = INT64_MAX;
  struct finished {  // the last run of a session, or every_run of a session that has ended
    std::int64_t number = INT64_MIN;
    peer_process client;
    deadline keep{std::chrono::seconds(60)};
  };

  // ---- the mutex is locked ----

  template <typename Gone>
  void drop_all_orphans(Gone is_gone) {
    for (auto each = runs_.begin(); each != runs_.end();) {
      const run& one = each->second;
      each = !one.is_asked_for && (one.keep.expired() || is_gone(one.from)) ? drop(each) : std::next(each);
    }
    for (auto each = finished_.begin(); each != finished_.end();)
      each = each->second.keep.expired() && (each->second.number == every_run || is_gone(each->second.client))
                 ? finished_.erase(each)
                 : std::next(each);
  }
  finished& add_finished(std::uint64_t session) {
    const auto [place, is_new] = finished_.try_emplace(session);
    if (!is_new) return place->second;
    order_.push_back(session);
    if (order_.size() > max_finished) {
      const std::uint64_t oldest = order_.front();
      order_.pop_front();
      if (oldest != session) finished_.erase(oldest);
    }
    return place->second;
  }
  bool has_finished(const run_key& key) const {
    const auto last = finished_.find(key.session);
    return last != finished_.end() && key.number <= last->second.number;
  }
  std::map<run_key, run>::iterator drop(typename std::map<run_key, run>::iterator run) {
    run->second.box->close();
    return runs_.erase(run);
  }

  mutable std::mutex mutex_;
  std::map<run_key, run> runs_;
  std::map<std::uint64_t, finished> finished_;  // by session
  std::deque<std::uint64_t> order_;             // sessions by insertion into finished_, perhaps erased since
};

}  // namespace weft::detail
