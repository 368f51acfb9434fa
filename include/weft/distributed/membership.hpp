#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <weft/distributed/cluster_spec.hpp>
#include <weft/error.hpp>
#include <weft/transport/deadline.hpp>

namespace weft {

/// What one task knows of another.
enum class task_state : unsigned char {
  awaited,  // not met yet
  alive,    // met, and heard of lately
  left,     // said goodbye
  lost,     // ended, or silent for too long; final for that incarnation
};

/// What one task knows of all the others: who is there, who left in order, who was lost and why. Any thread may ask.
class membership {
 public:
  membership(const cluster_spec& cluster, std::size_t self) : tasks_(cluster.tasks()), self_(self) {
    states_ = std::make_unique<std::atomic<task_state>[]>(tasks_.size());
    for (std::size_t i = 0; i < tasks_.size(); ++i) states_[i] = task_state::awaited;
    states_[self] = task_state::alive;
    incarnations_.resize(tasks_.size());
    reasons_.resize(tasks_.size());
  }

  std::size_t size() const { return tasks_.size(); }
  std::size_t self() const { return self_; }
  const task_id& task(std::size_t rank) const { return tasks_[rank]; }
  task_state state(std::size_t rank) const { return states_[rank].load(std::memory_order_acquire); }

  std::uint64_t incarnation(std::size_t rank) const {
    std::lock_guard lock(mutex_);
    return incarnations_[rank];
  }

  void set_alive(std::size_t rank, std::uint64_t incarnation) { change(rank, task_state::alive, {}, &incarnation); }
  void set_left(std::size_t rank) { change(rank, task_state::left, "has left the cluster", nullptr); }
  /// `why` continues the task's name: "has closed its connection". Returns the whole sentence.
  std::string set_lost(std::size_t rank, const std::string& why) {
    change(rank, task_state::lost, why, nullptr);
    return to_string(tasks_[rank]) + " " + why;
  }
  /// Why a task that should come could not be let in, for the list of missing tasks.
  void set_note(std::size_t rank, const std::string& why) {
    std::lock_guard lock(mutex_);
    if (state(rank) == task_state::awaited) reasons_[rank] = why;
  }
  /// A peer that this task cannot work with at all: everyone who waits for readiness throws this.
  void refuse(error why) {
    {
      std::lock_guard lock(mutex_);
      if (!refusal_) refusal_ = std::move(why);
    }
    changed_.notify_all();
  }
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }

  /// Returns when every task for which `needed(task_id)` holds is alive or has already left; one for which
  /// `dispensable(task_id)` holds may be lost, too.
  /// Throws weft::error: deadline_exceeded that lists the tasks that are missing, unavailable when one was lost,
  /// cancelled when this server stopped, or why a peer refused this task.
  template <typename Clock, typename Needed, typename Dispensable>
  void wait_for(basic_deadline<Clock> until, Needed needed, Dispensable dispensable) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (refusal_) throw *refusal_;
      if (stopped_) throw error(error_code::cancelled, "wait_ready", "this server was stopped");
      std::string missing;
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        if (!needed(tasks_[i])) continue;
        if (state(i) == task_state::lost && !dispensable(tasks_[i]))
          throw error(error_code::unavailable, "wait_ready", to_string(tasks_[i]) + " " + reasons_[i]);
        if (state(i) != task_state::awaited) continue;
        missing += (missing.empty() ? "" : ", ") + to_string(tasks_[i]);
        if (!reasons_[i].empty()) missing += " (" + reasons_[i] + ")";
      }
      if (missing.empty()) return;
      if (until.expired())
        throw error(error_code::deadline_exceeded, "wait_ready",
                    to_string(tasks_[self_]) + " still waits for " + missing +
                        "; start them, or look there for why they ended");
      wait(lock, until);
    }
  }

  template <typename Clock, typename Needed>
  void wait_for(basic_deadline<Clock> until, Needed needed) {
    wait_for(until, needed, [](const task_id&) { return false; });
  }

  /// Returns once the task is known to be gone, or after `until`.
  template <typename Clock>
  void await_verdict(std::size_t rank, basic_deadline<Clock> until) {
    std::unique_lock lock(mutex_);
    while (!stopped_ && state(rank) == task_state::alive && !until.expired()) wait(lock, until);
  }

  /// Returns once it is known why this task does not answer: it is lost, or it has left and another one is lost. At the
  /// latest after `until`.
  template <typename Clock>
  void await_cause(std::size_t rank, basic_deadline<Clock> until) {
    std::unique_lock lock(mutex_);
    const auto known = [&] {
      return state(rank) == task_state::lost || (state(rank) == task_state::left && first_lost_.has_value());
    };
    while (!stopped_ && !known() && !until.expired()) wait(lock, until);
  }

  /// Why work with this task cannot go on: names it, and the task that was lost first where that is another one, for
  /// the others' leaving usually follows from it. `otherwise` continues the task's name where nothing else is known, or
  /// no more than that it left after it was `seen_going` so.
  error diagnose(std::size_t rank, const std::string& operation, const std::string& otherwise,
                 bool seen_going = false) const {
    std::lock_guard lock(mutex_);
    const bool unknown = reasons_[rank].empty() || (seen_going && state(rank) == task_state::left);
    std::string sentence = to_string(tasks_[rank]) + " " + (unknown ? otherwise : reasons_[rank]);
    if (first_lost_ && *first_lost_ != rank) {
      const std::string first = to_string(tasks_[*first_lost_]) + " " + reasons_[*first_lost_];
      sentence = state(rank) == task_state::lost ? sentence + "; before that, " + first : first + "; then " + sentence;
    }
    return error(error_code::unavailable, operation, sentence);
  }

  /// "has closed its connection ...", or empty while nothing is wrong.
  std::string reason(std::size_t rank) const {
    std::lock_guard lock(mutex_);
    return reasons_[rank];
  }

 private:
  void change(std::size_t rank, task_state to, const std::string& why, const std::uint64_t* incarnation) {
    {
      std::lock_guard lock(mutex_);
      if (incarnation) incarnations_[rank] = *incarnation;
      reasons_[rank] = why;
      if (to == task_state::lost && !first_lost_) first_lost_ = rank;
      if (to == task_state::alive && first_lost_ == rank) first_lost_.reset();
      states_[rank].store(to, std::memory_order_release);
    }
    changed_.notify_all();
  }

  template <typename Clock>
  void wait(std::unique_lock<std::mutex>& lock, const basic_deadline<Clock>& until) {
    // In slices: any Clock works.
    const auto slice = std::chrono::duration_cast<typename Clock::duration>(std::chrono::milliseconds(50));
    detail::sleep(changed_, lock, std::chrono::duration_cast<std::chrono::nanoseconds>(until.remaining(slice)));
  }

  std::vector<task_id> tasks_;
  std::size_t self_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<std::atomic<task_state>[]> states_;
  std::vector<std::uint64_t> incarnations_;
  std::vector<std::string> reasons_;
  std::optional<std::size_t> first_lost_;
  std::optional<error> refusal_;
  bool stopped_ = false;
};

}  // namespace weft
