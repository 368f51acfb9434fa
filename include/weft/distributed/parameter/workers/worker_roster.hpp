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

/// A worker as a parameter server sees it: the process that has its place, and what it has said.
struct served_worker {
  using connection_type = worker_connection;
  using time_point = deadline::time_point;

  std::size_t rank = 0;           // in the cluster
  std::size_t index = 0;          // among the workers
  std::uint64_t incarnation = 0;  // of the process that has come last; 0: none yet
  std::uint64_t newest = 0;       // connection that it has opened
  std::unique_ptr<connection_type> connection;
  bool enrolled = false, took_part = false, done = false;
  bool stays = false;                  // it is done, and is served until it says so again
  bool has_asked = false;              // since supervision looked last
  time_point last_asked{};             // then, or before
  bool announces_stop = false;         // its last gradients announced a signal
  bool was_done = false;               // a restored shard or manifest records it as done; its process may still connect
  std::uint64_t finished_process = 0;  // then the incarnation that has finished; 0: unknown
  time_point restored_at{};            // and when that was restored
  std::string refused;                 // why it may not take part, or does no more
  std::string rejected;                // why it may not take the place of a process that is lost, while another one may
  std::string gone;                    // why its connection has ended, where that is a fault
  time_point gone_at{};
  bool may_return = false;   // its connection has ended and its process has not: it may open another
  bool is_deferred = false;  // its parked request has not been handled: shards are to be restored or committed first
  bool given_up = false;     // it is alive, and has asked for nothing for too long

  // What follows is the replica's, whichever process has its place.
  bool had_process = false;      // a process has taken part before this one
  bool is_left_out = false;      // training goes on without it, until gradients come from it again
  bool is_taken_over = false;    // other workers compute its gradients, until another process comes
  std::uint64_t holder = 0;      // the process that has brought what is held
  std::optional<error> failure;  // of what it has brought, for its next question
  held_gradients held;           // for a step that a parameter server decides about
  std::int64_t values_at = 0;    // updates in the values that it was sent last
  bool is_duplicate = false;     // its parked update had been applied before
  std::uint32_t staleness = 0;   // updates that others had made between these and its last update

  bool is_parked() const { return connection && connection->is_parked(); }
  /// Whether its gradients wait for a synchronous step.
  bool contributes() const { return is_parked() && connection->asks_for(frame_kind::push_pull); }
  bool awaits_step() const { return is_parked() && connection->asks_for(frame_kind::await_step); }
};

/// The workers of a cluster in the order of their indices, those that have not come included. The order and number do
/// not change. Not locked: the serving thread owns it.
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
  /// The names of those for which `holds(worker)`, for messages.
  template <typename Predicate>
  std::string names(Predicate holds) const {
    std::string all;
    for (const worker& each : workers_)
      if (holds(each)) append(all, {all.empty() ? "" : ", ", name(each)});
    return all;
  }

  /// How many are lost, while training goes on without them.
  std::uint32_t left_out() const {
    return static_cast<std::uint32_t>(
        std::count_if(begin(), end(), [](const worker& each) { return each.is_left_out; }));
  }

  /// Whether no more updates come from this worker.
  bool has_ended(const worker& each) const {
    const task_state state = members_.state(each.rank);
    return each.done || each.given_up || !each.refused.empty() || state == task_state::left ||
           state == task_state::lost;
  }
  bool have_others_ended(const worker& but) const {
    return std::all_of(begin(), end(), [&](const worker& each) { return &each == &but || has_ended(each); });
  }

  /// Whether nobody needs this server any more. `is_awaited(worker)`: another process may take the place of one that
  /// is gone.
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

  /// Marks workers as done that a restored shard or manifest lists as done and that will not come: they are known to
  /// have ended, the time to come has `passed`, or the process that has finished is alive and `is_silent(worker)`, so
  /// it has received the answer to its finish(). Returns true if any is marked.
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
      if (has_finished && !has_ended) each.incarnation = each.finished_process;  // its loss counts as one after its end
      each.was_done = false;
      each.done = any = true;
    }
    return any;
  }

  /// The names of those that have never come, with the reason where one is known; empty when all have.
  std::string missing() const {
    std::string all;
    for (const worker& each : workers_)
      if (!each.connection && !each.done && members_.state(each.rank) == task_state::awaited) {
        append(all, {all.empty() ? "" : ", ", name(each)});
        if (const std::string why = members_.reason(each.rank); !why.empty()) append(all, {" (", why, ")"});
      }
    return all;
  }

  /// Writes which workers have finished and which are lost.
  void list(join_report& result) const {
    std::vector<std::string> gave_up;  // listed after those that were lost: their going often follows from it
    for (const worker& each : workers_) {
      // A worker that ends with an error leaves in order too: its goodbye alone does not make it finished.
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
    return each.took_part ? left_early : str_cat({left_early, ", and has asked this parameter server for nothing"});
  }

  membership& members_;
  std::vector<worker> workers_;
};

}  // namespace weft::detail
