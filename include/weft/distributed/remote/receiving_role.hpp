// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include <weft/deadline.hpp>

namespace weft::detail {

/// Priorities for the role of receiving_role: the connections' own thread yields to a thread that waits for the next
/// request, and both yield to a thread whose step waits.
enum class urgency : std::uint8_t { own_thread, next_request, step };

/// Decides which thread of a process receives on its connections. A thread that waits for a frame receives by itself,
/// so that no other thread has to wake it. The connections' own thread receives while no thread waits, so that tasks
/// that send to this task always make progress.
class receiving_role {
 public:
  /// Takes the role, even from a less urgent thread, which `ring` wakes. Returns false if another thread keeps it.
  template <typename Ring>
  bool acquire(urgency mine, Ring ring) {
    std::unique_lock lock(mutex_);
    if (mine != urgency::step && claims_ > 0) return false;
    if (is_held_) {
      if (mine <= holder_) return false;
      const claim made{claims_};
      if (is_asleep_) ring();
      for (deadline until(std::chrono::milliseconds(5)); is_held_;) {
        if (mine <= holder_ || until.expired()) return false;
        detail::sleep(changed_, lock, until.remaining());
      }
    }
    hold(mine);
    return true;
  }
  void release() {
    {
      const std::lock_guard lock(mutex_);
      is_held_ = false;
      if (!own_sleeps_ && claims_ == 0) return;
      own_sleeps_ = false;
    }
    changed_.notify_all();
  }
  struct holding {
    receiving_role& of;
    ~holding() { of.release(); }
  };

  /// Returns true if the thread that has the role must yield it to a more urgent thread. A step never yields: claims
  /// that remain are of threads that another step has overtaken.
  bool must_yield() const { return claims_ > 0 && holder_ != urgency::step; }
  bool is_asleep() const { return is_asleep_; }
  /// Marks the sleep of the thread that has the role.
  struct sleeping {
    explicit sleeping(receiving_role& role) : of(role) { of.is_asleep_ = true; }
    sleeping(const sleeping&) = delete;
    sleeping& operator=(const sleeping&) = delete;
    ~sleeping() { of.is_asleep_ = false; }
    receiving_role& of;
  };

  /// For the connections' own thread: takes the role once no thread has had it for a moment. Returns false if this does
  /// not happen within `time`.
  bool acquire_when_idle(std::chrono::milliseconds time) {
    constexpr std::chrono::milliseconds moment{1};
    constexpr int few = 5;
    std::unique_lock lock(mutex_);
    for (deadline until(time); !until.expired();) {
      if (!is_held_ && claims_ == 0 && seen_ == tenure_) {
        hold(urgency::own_thread);
        return true;
      }
      looks_ = is_held_ && seen_ == tenure_ ? looks_ + 1 : 0;
      seen_ = tenure_;
      // A thread that has had the role for several moments wakes this thread when it releases the role.
      own_sleeps_ = looks_ > few;
      detail::sleep(changed_, lock, looks_ > few ? until.remaining() : until.remaining(moment));
      if (looks_ > few && !own_sleeps_) seen_ = 0;
      own_sleeps_ = false;
    }
    return false;
  }

 private:
  struct claim {
    explicit claim(std::atomic<int>& of) : all(of) { ++all; }
    claim(const claim&) = delete;
    claim& operator=(const claim&) = delete;
    ~claim() { --all; }
    std::atomic<int>& all;
  };

  void hold(urgency mine) {
    is_held_ = true;
    holder_ = mine;
    ++tenure_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false, own_sleeps_ = false;
  urgency holder_ = urgency::own_thread;
  std::uint64_t tenure_ = 1, seen_ = 0;  // seen_, looks_: by the connections' own thread
  int looks_ = 0;
  std::atomic<bool> is_asleep_{false};
  std::atomic<int> claims_{0};
};

}  // namespace weft::detail
