// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/join_report.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/steps/held_gradients.hpp>
#include <weft/distributed/parameter/workers/worker_connection.hpp>
#include <weft/error.hpp>

namespace weft::detail {

inline constexpr const char* left_early = "has left the cluster without finish()";
inline constexpr const char* stopped_by_signal = "was stopped by a signal";

/// A worker as a parameter server sees it: the process in its place, and the state from its requests.
struct served_worker {
  using connection_type = worker_connection;
  using time_point = deadline::time_point;

  std::size_t rank = 0;           // in the cluster
  std::size_t index = 0;          // among the workers
  std::uint64_t incarnation = 0;  // of the process that connected last; 0: none yet
  std::uint64_t newest = 0;       // number of the newest connection
  std::unique_ptr<connection_type> connection;
  bool enrolled = false, took_part = false, done = false;
  bool stays = false;                  // finished its updates but still reads; ends at its second `done`
  bool has_asked = false;              // sent a request since the last supervision
  time_point last_asked{};             // time of the last request, as of the last supervision
  bool announces_stop = false;         // its last gradients announced a signal
  bool was_done = false;               // a restored shard or manifest records it as done; its process may still connect
  std::uint64_t finished_process = 0;  // if was_done: incarnation that finished; 0: unknown
  time_point restored_at{};            // if was_done: when the record was restored
  std::string refused;                 // why it may not take part, or has ended
  std::string rejected;                // why its process may not replace a lost one, though another process may
  std::string gone;                    // the fault that ended its connection
  time_point gone_at{};
  bool may_return = false;   // its process outlived its connection and may open another
  bool is_deferred = false;  // its parked request waits until shards are restored or committed
  bool given_up = false;     // it is alive but has sent no request for too long

  // The members below belong to the replica, whichever process takes its place.
  bool had_process = false;      // an earlier process took part
  bool is_left_out = false;      // training continues without it until it sends gradients again
  bool is_taken_over = false;    // other workers compute its gradients until another process connects
  std::uint64_t holder = 0;      // incarnation of the process that sent `held`
  std::optional<error> failure;  // error of gradients that it sent, for its next await_step
  held_gradients held;           // for a step that parameter server 0 decides
  std::int64_t values_at = 0;    // number of updates in the values that it received last
  bool is_duplicate = false;     // its parked update had been applied before
  std::uint32_t staleness = 0;   // updates by others between these values and its last update

  bool is_parked() const { return connection && connection->is_parked(); }
  /// Returns true if its gradients wait for a synchronous step.
  bool contributes() const { return is_parked() && connection->asks_for(frame_kind::push_pull); }
  bool awaits_step() const { return is_parked() && connection->asks_for(frame_kind::await_step); }
};

/// All workers of a cluster in the order of their indices, including workers that have not connected. Order and number
/// do not change. Not thread-safe: the serving thread owns the object.
class worker_roster {
 public:
  using worker = served_worker;

  explicit worker_roster(task_server& here) : members_(here.members()) {
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (members_.task(rank).job == here.options().worker_job) {
        worker& added = workers_.emplace_back();
        added.rank = rank;
        added.index = workers_.size() - 1;
        added.last_asked = detail::now();
      }
  }

  auto begin() { return workers_.begin(); }
  auto end() { return workers_.end(); }
  auto begin() const { return workers_.begin(); }
  auto end() const { return workers_.end(); }
  std::size_t size() const { return workers_.size(); }

  worker& operator[](std::size_t index) { return workers_[index]; }
  const worker& operator[](std::size_t index) const { return workers_[index]; }

  const worker& chief() const { return workers_.front(); }
  bool is_chief(const worker& each) const { return each.index == 0; }

  membership& members() const { return members_; }
  std::string name(const worker& each) const { return to_string(members_.task(each.rank)); }
  /// The names of the workers for which `holds(worker)` is true, for messages.
  template <typename Predicate>
  std::string names(Predicate holds) const {
    std::string all;
    for (const worker& each : workers_)
      if (holds(each)) append(all, {all.empty() ? "" : ", ", name(each)});
    return all;
  }

  /// Number of lost workers without which training continues.
  std::uint32_t left_out() const {
    return static_cast<std::uint32_t>(
        std::count_if(begin(), end(), [](const worker& each) { return each.is_left_out; }));
  }

  /// Returns true if this worker sends no more updates.
  bool has_ended(const worker& each) const {
    const task_state state = members_.state(each.rank);
    return each.done || each.given_up || !each.refused.empty() || state == task_state::left ||
           state == task_state::lost;
  }
  bool have_others_ended(const worker& but) const {
    return std::all_of(begin(), end(), [&](const worker& each) { return &each == &but || has_ended(each); });
  }

  /// Returns true if no worker needs this server any more. `is_awaited(worker)` returns true if another process may
  /// take the place of a worker that is gone.
  template <typename Predicate>
  bool have_all_finished(Predicate is_awaited) const {
    return std::all_of(begin(), end(), [&](const worker& each) {
      if (each.connection && each.connection->is_answering()) return false;
      const task_state state = members_.state(each.rank);
      const bool has_ended = state == task_state::left || state == task_state::lost;
      return each.given_up || (((each.done && !each.stays) || has_ended) && !is_awaited(each));
    });
  }
  bool are_all_done() const {
    return std::all_of(begin(), end(), [](const worker& each) { return each.done && !each.stays; });
  }
  bool have_all_gone() const {
    return std::none_of(begin(), end(), [&](const worker& each) {
      return each.connection || members_.state(each.rank) == task_state::alive;
    });
  }

  /// Marks workers as done that a restored shard or manifest lists as done and that will not connect: they are known to
  /// have ended, the time to connect has `passed`, or the process that finished is alive and `is_silent(worker)`, so it
  /// has received the answer to its finish(). Returns true if it marks any.
  template <typename Predicate>
  bool settle_done(bool passed, Predicate is_silent) {
    bool any = false;
    for (worker& each : workers_) {
      if (!each.was_done) continue;
      const task_state state = members_.state(each.rank);
      const bool has_ended = state == task_state::left || state == task_state::lost;
      const bool has_finished =
          each.finished_process != 0 && !each.connection && members_.incarnation(each.rank) == each.finished_process;
      if (!has_ended && !(passed && state == task_state::awaited) && !(has_finished && is_silent(each))) continue;
      if (has_finished && !has_ended) each.incarnation = each.finished_process;  // a later loss is a loss after its end
      each.was_done = false;
      each.done = any = true;
    }
    return any;
  }

  /// The names of the workers that have never connected, with the reason if it is known; empty if all have.
  std::string missing() const {
    std::string all;
    for (const worker& each : workers_)
      if (!each.connection && !each.done && members_.state(each.rank) == task_state::awaited) {
        append(all, {all.empty() ? "" : ", ", name(each)});
        if (const std::string why = members_.reason(each.rank); !why.empty()) append(all, {" (", why, ")"});
      }
    return all;
  }

  /// Adds the finished and the lost workers to `result`.
  void list(join_report& result) const {
    std::vector<std::string> gave_up;  // listed after lost workers, which are often the cause
    for (const worker& each : workers_) {
      // A worker that ends with an error also sends a goodbye, so a goodbye alone does not mean that it finished.
      const task_state state = members_.state(each.rank);
      if (each.done)
        result.finished.push_back(name(each));
      else if (state == task_state::lost)
        result.lost.push_back(str_cat({name(each), " ", members_.reason(each.rank)}));
      else if (!each.refused.empty())
        gave_up.push_back(str_cat({name(each), " ", each.refused}));
      else if (!each.rejected.empty())
        gave_up.push_back(str_cat({name(each), " ", each.rejected}));
      else if (state == task_state::left)
        gave_up.push_back(str_cat({name(each), " ", how_it_left(each)}));
      else if (!each.gone.empty())
        result.lost.push_back(str_cat({name(each), " ", each.gone}));
    }
    result.lost.insert(result.lost.end(), gave_up.begin(), gave_up.end());
  }

 private:
  std::string how_it_left(const worker& each) const {
    const std::string reason = members_.reason(each.rank);
    if (reason != "has left the cluster") return reason;
    return each.took_part ? left_early : str_cat({left_early, " and has sent no request to this parameter server"});
  }

  membership& members_;
  std::vector<worker> workers_;
};

}  // namespace weft::detail
