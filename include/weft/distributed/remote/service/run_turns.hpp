// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include <weft/deadline.hpp>

namespace weft::detail {

/// The state of a run, or of another request, in one task:
///
///     forwarding --> queued --> running --> ended
///                      ^          |
///                      +- paused <+
///
/// The first task of the cluster sends a run to the other tasks (forwarding). One run at a time computes (running), in
/// the order of the queue. A run with queue operations gives up its turn while one of its threads waits (paused).
enum class run_state : std::uint8_t { forwarding, queued, running, paused, ended };

/// The progress of a run, for run_turns. It must not move while it has or waits for a turn.
class run_progress {
 public:
  run_progress() = default;
  explicit run_progress(run_state first) : state_(first) {}
  /// For a run that has no thread yet; see run_turns::state_of().
  run_state state() const { return state_; }

 private:
  friend class run_turns;
  run_state state_ = run_state::queued;
  std::size_t waiting_ = 0;       // threads of the run that wait
  run_progress* next_ = nullptr;  // the next run in the queue
};

/// Lets one run at a time compute. All members are thread-safe.
class run_turns {
 public:
  /// Returns when it is the run's turn.
  void begin(run_progress& run) {
    std::unique_lock lock(mutex_);
    run.waiting_ = 0;
    queue(run, lock);
  }
  /// Ends the run, and with it the turn.
  void end(run_progress& run) {
    const std::lock_guard lock(mutex_);
    leave(run, run_state::ended);
  }
  /// A thread of the run starts to wait: other runs compute, and other threads of the run continue.
  void pause(run_progress& run) {
    const std::lock_guard lock(mutex_);
    if (run.waiting_++ == 0) leave(run, run_state::paused);
  }
  /// The wait has ended. If no thread of the run waits, returns when it is the run's turn again.
  void resume(run_progress& run) {
    std::unique_lock lock(mutex_);
    if (--run.waiting_ == 0) queue(run, lock);
  }

  run_state state_of(const run_progress& run) const {
    const std::lock_guard lock(mutex_);
    return run.state_;
  }

 private:
  /// Waits for the run's turn. Also returns if another thread of the run pauses the run meanwhile.
  void queue(run_progress& run, std::unique_lock<std::mutex>& lock) {
    run.state_ = run_state::queued;
    run_progress** last = &first_;
    while (*last) last = &(*last)->next_;
    *last = &run;
    while (run.state_ == run_state::queued && first_ != &run)
      detail::sleep(changed_, lock, std::chrono::milliseconds(50));
    if (run.state_ == run_state::queued) run.state_ = run_state::running;
  }
  void leave(run_progress& run, run_state next) {
    const bool wakes = std::exchange(run.state_, next) == run_state::queued;
    for (run_progress** each = &first_; *each; each = &(*each)->next_)
      if (*each == &run) {
        *each = std::exchange(run.next_, nullptr);
        break;
      }
    if (wakes || first_) changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  run_progress* first_ = nullptr;  // has the turn; the runs after it wait
};

/// Holds a turn for a scope.
class run_turn {
 public:
  run_turn(run_turns& turns, run_progress& run) : turns_(turns), run_(run) { turns_.begin(run_); }
  ~run_turn() { turns_.end(run_); }
  run_turn(const run_turn&) = delete;
  run_turn& operator=(const run_turn&) = delete;

 private:
  run_turns& turns_;
  run_progress& run_;
};

}  // namespace weft::detail
