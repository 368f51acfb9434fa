// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <weft/config.hpp>

namespace weft::detail {

/// The clock and the waits of deadlines and threads: the system's, unless a simulation of a cluster has installed its
/// own. A simulation must use the system's clock for threads that do not take part in it.
class time_source {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  time_source() = default;
  time_source(const time_source&) = delete;
  time_source& operator=(const time_source&) = delete;
  virtual ~time_source() = default;

  virtual time_point now() = 0;
  virtual void sleep(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                     std::chrono::nanoseconds time) = 0;
  virtual void sleep(std::chrono::nanoseconds time) = 0;
  virtual std::thread start_thread(std::function<void()> body) = 0;
  virtual void join(std::thread& thread) = 0;

  /// The time source of this process; null for the system's.
  static time_source* installed() { return place().load(std::memory_order_acquire); }
  /// For tests. Call it only while no thread waits.
  static void install(time_source* source) { place().store(source, std::memory_order_release); }

 private:
  static std::atomic<time_source*>& place() {
    static constinit std::atomic<time_source*> installed{nullptr};
    return installed;
  }
};

inline time_source::time_point now() {
  time_source* const source = time_source::installed();
  return source ? source->now() : std::chrono::steady_clock::now();
}

#if defined(__SANITIZE_THREAD__)
inline constexpr bool under_thread_sanitizer = true;
#elif defined(__has_feature)
inline constexpr bool under_thread_sanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

/// Sleeps until notified, for at most `time`; may return earlier. Uses the steady clock: if the system clock is set
/// back, a wait based on it takes longer by that amount. Current versions of ThreadSanitizer support only waits on the
/// system clock.
inline void sleep(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds time) {
  if (time_source* const source = time_source::installed())
    source->sleep(changed, lock, time);
  else if constexpr (under_thread_sanitizer)
    changed.wait_until(lock, std::chrono::system_clock::now() + time);
  else
    changed.wait_for(lock, time);
}

inline void sleep(std::chrono::nanoseconds time) {
  if (time_source* const source = time_source::installed())
    source->sleep(time);
  else
    std::this_thread::sleep_for(time);
}

/// Starts a thread; join() waits for its end. The threads of a simulated cluster take turns.
inline std::thread start_thread(std::function<void()> body) {
  time_source* const source = time_source::installed();
  return source ? source->start_thread(std::move(body)) : std::thread(std::move(body));
}
inline void join(std::thread& thread) {
  if (time_source* const source = time_source::installed())
    source->join(thread);
  else
    thread.join();
}

/// A mutex that a thread may hold while it sleeps or waits for the network. In a simulation, other threads continue
/// meanwhile.
class task_mutex {
 public:
  void lock() {
    if (!time_source::installed()) return mutex_.lock();
    while (!mutex_.try_lock()) sleep(std::chrono::microseconds(50));
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace weft::detail
