// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/wait_log.hpp>
#include <weft/error.hpp>
#include <weft/transport/separate.hpp>

namespace weft {

/// The state of a task as observed by another task.
enum class task_state : unsigned char {
  awaited,  ///< not connected yet
  alive,    ///< connected, and not silent for too long
  left,     ///< has sent a goodbye
  lost,     ///< ended, or silent for too long; final for this incarnation
};

/// One task's record of all other tasks: which are alive, which have left, and which are lost and why. A restarted task
/// is another incarnation. A caller waits for one incarnation, so a restart cannot hide a loss. Thread-safe.
class membership {
 public:
  membership(const cluster_spec& cluster, std::size_t self)
      : tasks_(cluster.tasks()), self_(self), known_(tasks_.size()) {
    known_[self].state = task_state::alive;
  }

  std::size_t size() const { return tasks_.size(); }
  std::size_t self() const { return self_; }
  const task_id& task(std::size_t rank) const { return tasks_[rank]; }
  task_state state(std::size_t rank) const { return known_[rank].state.load(std::memory_order_acquire); }
  /// The newest known incarnation; 0: none.
  std::uint64_t incarnation(std::size_t rank) const { return known_[rank].incarnation.load(std::memory_order_acquire); }

  /// The state of one incarnation; 0: the newest.
  task_state state(std::size_t rank, std::uint64_t incarnation) const;
  bool alive(std::size_t rank, std::uint64_t incarnation) const {
    return state(rank, incarnation) == task_state::alive;
  }

  /// Returns true if this task keeps a connection with that one. This task learns about all others from its peers.
  bool connects_to(std::size_t rank) const { return known_[rank].connects.load(std::memory_order_acquire); }
  /// Returns true if connects_to() was false before.
  bool set_connects_to(std::size_t rank) { return !known_[rank].connects.exchange(true, std::memory_order_acq_rel); }

  // ---- observations of this task ----

  void set_alive(std::size_t rank, std::uint64_t incarnation);

  /// The reason in the goodbye of a task that leaves, without an error, while others need it.
  static constexpr const char* without_finish = "without finish()";

  /// `why`: the reason that the task has sent; may be empty. `finished`: it has made its last step with all other
  /// workers.
  void set_left(std::size_t rank, const std::string& why = {}, bool finished = false);

  /// `why` continues the task's name: "has closed its connection". `closed`: the connection has ended, as it does when
  /// the process ends. Returns the whole sentence.
  std::string set_lost(std::size_t rank, const std::string& why, bool closed = false);

  /// Returns true if the newest incarnation was lost because its connection ended, not because of silence.
  bool has_closed(std::size_t rank) const { return known_[rank].closed.load(std::memory_order_acquire); }

  /// A peer's verdict on this task. `given_up`: the peer has declared it lost, on their connection. `given_up_again`:
  /// the peer has rejected a new connection, which also happens if both have declared each other lost.
  enum class verdict : unsigned char { none, given_up_again, given_up };
  void set_verdict(std::size_t rank, verdict said) {
    auto& of = known_[rank].said;
    if (said > of.load(std::memory_order_acquire)) of.store(said, std::memory_order_release);
  }
  /// For the newest incarnation.
  verdict verdict_of(std::size_t rank) const { return known_[rank].said.load(std::memory_order_acquire); }

  // ---- reports of other tasks ----

  /// Records a report that a task has left or is lost. This task's own observations take precedence. Returns true if
  /// the report is news.
  bool hear(std::size_t rank, std::uint64_t incarnation, task_state became, const std::string& why);
  /// Records that another task has connected to a replacement of a lost task that this task does not connect to.
  /// Returns true if the report is news.
  bool hear_back(std::size_t rank, std::uint64_t incarnation);
  /// Returns true if this task knows only from reports that the task is gone.
  bool is_hearsay(std::size_t rank) const;
  /// Returns true if this task itself has observed the end of this incarnation. A task that is gone only according to
  /// reports may connect again.
  bool is_given_up(std::size_t rank, std::uint64_t incarnation) const;

  /// Sets why a missing task could not be admitted, for the list of missing tasks.
  void set_note(std::size_t rank, const std::string& why);
  /// The same if the name of the task is unknown.
  void set_note(const std::string& why);
  /// Returns "; " and the note, or an empty text if there is none.
  std::string note() const;
  /// Records that the two tasks cannot work together: every wait for this task throws `why`.
  void refuse(std::size_t rank, error why);
  /// Calls refuse() for every task that has not connected yet.
  void refuse_all(const error& why);
  /// Returns the error of a task that has not connected yet and cannot work with this one, if there is one.
  std::optional<error> refusal() const;
  void stop();

  // ---- waiting ----

  detail::wait_log& waits() { return waits_; }

  /// Returns when every task that this one connects to and for which `needed(task_id)` holds is alive or has left. A
  /// task for which `dispensable(task_id)` holds can also be lost. Throws weft::error: deadline_exceeded with the
  /// missing tasks, unavailable if a task was lost, cancelled if this server stops, or the error that refuse() has set.
  template <typename Needed, typename Dispensable>
  void wait_for(deadline until, Needed needed, Dispensable dispensable) {
    std::unique_lock lock(mutex_);
    const auto quiet_until = detail::now() + quiet_time;
    const std::chrono::seconds longest = std::chrono::ceil<std::chrono::seconds>(until.remaining(no_limit));
    for (bool reported = false;;) {
      if (stopped_) throw error(error_code::cancelled, "wait_ready", "this server was stopped");
      detail::awaited_tasks missing;
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        if (!needed(tasks_[i])) continue;
        const member& of = known_[i];
        if (state(i) == task_state::lost && !dispensable(tasks_[i]))
          throw error(error_code::unavailable, "wait_ready", {to_string(tasks_[i]), " ", of.reason});
        if (state(i) != task_state::awaited || !connects_to(i)) continue;
        if (of.refusal) throw *of.refusal;
        missing.add(tasks_[i], of.reason);
      }
      if (missing.empty()) {
        lock.unlock();
        if (reported) waits_.end(-1);
        return;
      }
      if (until.expired())
        throw error(error_code::deadline_exceeded, "wait_ready",
                    {to_string(tasks_[self_]), " still waits for ", missing.text,
                     "; start them, or check their logs if they ended", note_.empty() ? "" : "; ", note_});
      if (!reported && detail::now() >= quiet_until) {
        append(missing.text, {note_.empty() ? "" : "; ", note_});
        lock.unlock();
        waits_.begin(missing, longest < no_limit ? longest : std::chrono::seconds(0), false);
        reported = true;
        lock.lock();
      }
      wait(lock, until);
    }
  }

  template <typename Needed>
  void wait_for(deadline until, Needed needed) {
    wait_for(until, needed, [](const task_id&) { return false; });
  }

  /// Returns when the task is no longer alive, or at `until`.
  void await_verdict(std::size_t rank, deadline until) {
    std::unique_lock lock(mutex_);
    while (!stopped_ && state(rank) == task_state::alive && !until.expired()) wait(lock, until);
  }

  /// Returns when the reason for the silence of this incarnation is known: it is lost, or it has left and either gave a
  /// reason or another task is lost. Returns at `until` at the latest.
  void await_cause(std::size_t rank, std::uint64_t incarnation, deadline until) {
    std::unique_lock lock(mutex_);
    const auto known = [&] {
      const ended fate = fate_of(rank, incarnation);
      return fate.state == task_state::lost ||
             (fate.state == task_state::left && (first_lost_.has_value() || fate.reason != left_because({})));
    };
    while (!stopped_ && !known() && !until.expired()) wait(lock, until);
  }

  // ---- error messages ----

  /// Returns the error for interrupted work with this incarnation. The error names the task, and the task that was lost
  /// first if that is another one: the other tasks usually leave because of that loss, unless they give another reason.
  /// `otherwise` continues the task's name if nothing is known or, with `seen_going`, only that the task has left.
  error diagnose(std::size_t rank, std::uint64_t incarnation, const std::string& operation,
                 const std::string& otherwise, bool seen_going = false) const;

  /// Returns true if the newest incarnation has left after completing training with all other workers.
  bool has_finished(std::size_t rank) const {
    return state(rank) == task_state::left && known_[rank].finished.load(std::memory_order_acquire);
  }

  /// Returns true if an incarnation (0: the newest) was lost, or has left after an error or without finish().
  bool has_failed(std::size_t rank, std::uint64_t incarnation = 0) const;

  /// Returns the task that was lost first, if a task was lost.
  std::optional<std::size_t> first_lost() const;

  /// Returns "has closed its connection ...", or an empty text if nothing is wrong.
  std::string reason(std::size_t rank) const;
  /// The same for one incarnation.
  std::string reason(std::size_t rank, std::uint64_t incarnation) const;

 private:
  struct ended {
    std::uint64_t incarnation = 0;
    task_state state = task_state::lost;
    std::string reason;
  };

  struct member {
    std::atomic<task_state> state{task_state::awaited};
    std::atomic<std::uint64_t> incarnation{0};
    std::atomic<bool> connects{false};
    std::atomic<bool> closed{false};
    std::atomic<bool> finished{false};
    std::atomic<verdict> said{verdict::none};
    std::string reason;
    bool hearsay = false;          // known only from reports
    std::optional<error> refusal;  // why the two tasks cannot work together
    ended before;                  // the incarnation before this one
  };

  static std::string left_because(const std::string& why);

  /// Returns true if a sentence names this task.
  bool names(const std::string& sentence, std::size_t rank) const;

  void keep_past(std::size_t rank);

  ended past(std::size_t rank, std::uint64_t incarnation) const;

  ended fate_of(std::size_t rank, std::uint64_t incarnation) const;

  bool end(std::size_t rank, std::uint64_t incarnation, task_state to, const std::string& why, bool hearsay);

  void wait(std::unique_lock<std::mutex>& lock, const deadline& until) {
    detail::sleep(changed_, lock, until.remaining(std::chrono::milliseconds(50)));
  }

  static constexpr std::chrono::hours no_limit{24};
  static constexpr std::chrono::seconds quiet_time{3};  // tasks do not start at the same moment

  detail::wait_log waits_;
  std::vector<task_id> tasks_;
  std::size_t self_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<member> known_;
  std::optional<std::size_t> first_lost_;
  std::string note_;
  bool stopped_ = false;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL task_state membership::state(std::size_t rank, std::uint64_t incarnation) const {
  if (incarnation == 0 || this->incarnation(rank) == incarnation) return state(rank);
  std::lock_guard lock(mutex_);
  return known_[rank].incarnation == incarnation ? state(rank) : past(rank, incarnation).state;
}

WEFT_DISTRIBUTED_DECL void membership::set_alive(std::size_t rank, std::uint64_t incarnation) {
  {
    std::lock_guard lock(mutex_);
    member& of = known_[rank];
    if (of.incarnation != incarnation) keep_past(rank);
    of.incarnation.store(incarnation, std::memory_order_release);
    of.said.store(verdict::none, std::memory_order_release);
    of.finished.store(false, std::memory_order_release);
    of.reason.clear();
    of.hearsay = false;
    of.refusal.reset();
    if (first_lost_ == rank) first_lost_.reset();
    of.state.store(task_state::alive, std::memory_order_release);
  }
  changed_.notify_all();
}

WEFT_DISTRIBUTED_DECL void membership::set_left(std::size_t rank, const std::string& why, bool finished) {
  known_[rank].finished.store(finished, std::memory_order_release);
  end(rank, incarnation(rank), task_state::left, left_because(why), false);
}

WEFT_DISTRIBUTED_DECL std::string membership::set_lost(std::size_t rank, const std::string& why, bool closed) {
  known_[rank].closed.store(closed, std::memory_order_release);
  end(rank, incarnation(rank), task_state::lost, why, false);
  return str_cat({to_string(tasks_[rank]), " ", why});
}

WEFT_DISTRIBUTED_DECL bool membership::hear(std::size_t rank, std::uint64_t incarnation, task_state became,
                                            const std::string& why) {
  if (rank == self_ || state(rank) == task_state::alive || this->incarnation(rank) == incarnation) return false;
  if (state(rank) != task_state::awaited) return false;
  return end(rank, incarnation, became, why, true);
}

WEFT_DISTRIBUTED_DECL bool membership::hear_back(std::size_t rank, std::uint64_t incarnation) {
  {
    std::lock_guard lock(mutex_);
    member& of = known_[rank];
    if (!of.hearsay || of.incarnation == incarnation || connects_to(rank)) return false;
    // The incarnation stays that of the lost process: another notice of its loss is not news.
    of.reason.clear();
    of.hearsay = false;
    if (first_lost_ == rank) first_lost_.reset();
    of.state.store(task_state::awaited, std::memory_order_release);
  }
  changed_.notify_all();
  return true;
}

WEFT_DISTRIBUTED_DECL bool membership::is_hearsay(std::size_t rank) const {
  std::lock_guard lock(mutex_);
  return known_[rank].hearsay;
}

WEFT_DISTRIBUTED_DECL bool membership::is_given_up(std::size_t rank, std::uint64_t incarnation) const {
  std::lock_guard lock(mutex_);
  const member& of = known_[rank];
  if (of.incarnation == incarnation) return of.state == task_state::lost && !of.hearsay;
  return of.before.incarnation == incarnation && incarnation != 0;
}

WEFT_DISTRIBUTED_DECL void membership::set_note(std::size_t rank, const std::string& why) {
  std::lock_guard lock(mutex_);
  if (state(rank) == task_state::awaited) known_[rank].reason = why;
}

WEFT_DISTRIBUTED_DECL void membership::set_note(const std::string& why) {
  std::lock_guard lock(mutex_);
  note_ = why;
}

WEFT_DISTRIBUTED_DECL std::string membership::note() const {
  std::lock_guard lock(mutex_);
  return note_.empty() ? "" : "; " + note_;
}

WEFT_DISTRIBUTED_DECL void membership::refuse(std::size_t rank, error why) {
  {
    std::lock_guard lock(mutex_);
    if (!known_[rank].refusal) known_[rank].refusal = std::move(why);
  }
  changed_.notify_all();
}

WEFT_DISTRIBUTED_DECL void membership::refuse_all(const error& why) {
  for (std::size_t rank = 0; rank < size(); ++rank)
    if (state(rank) == task_state::awaited) refuse(rank, why);
}

WEFT_DISTRIBUTED_DECL std::optional<error> membership::refusal() const {
  std::lock_guard lock(mutex_);
  for (std::size_t rank = 0; rank < size(); ++rank)
    if (state(rank) == task_state::awaited && connects_to(rank) && known_[rank].refusal) return known_[rank].refusal;
  return {};
}

WEFT_DISTRIBUTED_DECL void membership::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

WEFT_DISTRIBUTED_DECL error membership::diagnose(std::size_t rank, std::uint64_t incarnation,
                                                 const std::string& operation, const std::string& otherwise,
                                                 bool seen_going) const {
  std::lock_guard lock(mutex_);
  const ended fate = fate_of(rank, incarnation);
  const bool says_why = fate.state == task_state::left && fate.reason != left_because({});
  const bool follows = first_lost_ && *first_lost_ != rank && (!says_why || names(fate.reason, *first_lost_));
  const bool unknown = fate.reason.empty() || (seen_going && fate.state == task_state::left && !says_why);
  std::string sentence = str_cat({to_string(tasks_[rank]), " ",
                                  (unknown               ? otherwise
                                   : says_why && follows ? left_because({})
                                                         : fate.reason)});
  if (follows) {
    const std::string first = str_cat({to_string(tasks_[*first_lost_]), " ", known_[*first_lost_].reason});
    sentence = fate.state == task_state::lost ? str_cat({sentence, "; before that, ", first})
                                              : str_cat({first, "; then ", sentence});
  }
  return error(error_code::unavailable, operation, sentence);
}

WEFT_DISTRIBUTED_DECL bool membership::has_failed(std::size_t rank, std::uint64_t incarnation) const {
  std::lock_guard lock(mutex_);
  const ended of = fate_of(rank, incarnation);
  return of.state == task_state::lost ||
         (of.state == task_state::left && !of.reason.starts_with(left_because({}) + ",") &&
          of.reason != left_because({}));
}

WEFT_DISTRIBUTED_DECL std::optional<std::size_t> membership::first_lost() const {
  std::lock_guard lock(mutex_);
  return first_lost_;
}

WEFT_DISTRIBUTED_DECL std::string membership::reason(std::size_t rank) const {
  std::lock_guard lock(mutex_);
  return known_[rank].reason;
}

WEFT_DISTRIBUTED_DECL std::string membership::reason(std::size_t rank, std::uint64_t incarnation) const {
  std::lock_guard lock(mutex_);
  return fate_of(rank, incarnation).reason;
}

WEFT_DISTRIBUTED_DECL std::string membership::left_because(const std::string& why) {
  if (why.empty()) return "has left the cluster";
  return str_cat({"has left the cluster ", why == without_finish ? "" : "after an error: ", why});
}

WEFT_DISTRIBUTED_DECL bool membership::names(const std::string& sentence, std::size_t rank) const {
  const std::string name = to_string(tasks_[rank]);
  const std::size_t at = sentence.find(name), after = at + name.size();
  return at != std::string::npos && (after == sentence.size() || sentence[after] < '0' || sentence[after] > '9');
}

WEFT_DISTRIBUTED_DECL void membership::keep_past(std::size_t rank) {
  member& of = known_[rank];
  if (of.incarnation == 0) return;
  const bool unnoticed = of.state == task_state::alive;
  of.before = {of.incarnation, unnoticed ? task_state::lost : of.state.load(),
               unnoticed ? "was started again" : of.reason};
}

WEFT_DISTRIBUTED_DECL membership::ended membership::past(std::size_t rank, std::uint64_t incarnation) const {
  const ended& before = known_[rank].before;
  if (before.incarnation == incarnation && !before.reason.empty()) return before;
  return {incarnation, task_state::lost, "was started again"};
}

WEFT_DISTRIBUTED_DECL membership::ended membership::fate_of(std::size_t rank, std::uint64_t incarnation) const {
  const member& of = known_[rank];
  if (incarnation != 0 && of.incarnation != incarnation) return past(rank, incarnation);
  return {incarnation, of.state, of.reason};
}

WEFT_DISTRIBUTED_DECL bool membership::end(std::size_t rank, std::uint64_t incarnation, task_state to,
                                           const std::string& why, bool hearsay) {
  {
    std::lock_guard lock(mutex_);
    member& of = known_[rank];
    if (hearsay && of.state != task_state::awaited) return false;
    of.incarnation.store(incarnation, std::memory_order_release);
    of.reason = why;
    of.hearsay = hearsay;
    if (to == task_state::lost && !first_lost_) first_lost_ = rank;
    of.state.store(to, std::memory_order_release);
  }
  changed_.notify_all();
  return true;
}

#endif

}  // namespace weft
