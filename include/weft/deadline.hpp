#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include <weft/config.hpp>

namespace weft {

/// The moment until which a call may take. Written as a duration from now, `client.pull(out, 5s)`; waiting without an
/// end must be spelt out as deadline::never().
template <typename Clock = std::chrono::steady_clock>
class basic_deadline {
 public:
  using clock = Clock;
  using time_point = typename Clock::time_point;
  using duration = typename Clock::duration;

  template <typename Rep, typename Period>
  basic_deadline(std::chrono::duration<Rep, Period> from_now) : at_(after(from_now)) {}
  explicit basic_deadline(time_point at) : at_(at) {}

  static basic_deadline never() { return basic_deadline(time_point::max()); }

  bool expired() const { return at_ != time_point::max() && Clock::now() >= at_; }

  /// The time that is left of it, never negative and never more than `most`.
  duration remaining(duration most = duration::max()) const {
    if (at_ == time_point::max()) return most;
    return std::clamp(at_ - Clock::now(), duration::zero(), most);
  }

  /// For a frame's header: microseconds left, at least 1; 0 where there is no deadline.
  std::uint64_t remaining_us() const {
    if (at_ == time_point::max()) return 0;
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(remaining()).count();
    return static_cast<std::uint64_t>(std::max<decltype(left)>(left, 1));
  }

  time_point at() const { return at_; }

 private:
  template <typename Duration>
  static time_point after(Duration from_now) {
    const auto now = Clock::now();
    if (std::chrono::duration<double>(from_now) >= std::chrono::duration<double>(time_point::max() - now))
      return time_point::max();
    if (from_now < Duration::zero()) return now;  // however long ago
    return now + std::chrono::duration_cast<duration>(from_now);
  }

  time_point at_;
};

/// A deadline of the steady clock.
using deadline = basic_deadline<>;

namespace detail {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool under_thread_sanitizer = true;
#elif defined(__has_feature)
inline constexpr bool under_thread_sanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

/// Sleeps until it is notified, at most for `time`; may return earlier. By the steady clock: the system's may be set
/// back, and a wait by it would last as much longer. ThreadSanitizer of today's compilers knows only the latter. A
/// clock whose time is not that of the world brings a sleep of its own.
template <typename Clock = std::chrono::steady_clock>
void sleep(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds time) {
  if constexpr (requires { Clock::sleep(changed, lock, time); })
    Clock::sleep(changed, lock, time);
  else if constexpr (under_thread_sanitizer)
    changed.wait_until(lock, std::chrono::system_clock::now() + time);
  else
    changed.wait_for(lock, time);
}

/// Sleeps for so long.
template <typename Clock = std::chrono::steady_clock>
void sleep(std::chrono::nanoseconds time) {
  if constexpr (requires { Clock::sleep(time); })
    Clock::sleep(time);
  else
    std::this_thread::sleep_for(time);
}

/// Starts a thread, and waits for its end. Those of a simulated cluster take turns.
template <typename Clock = std::chrono::steady_clock, typename Body>
std::thread start_thread(Body body) {
  if constexpr (requires { Clock::start_thread(body); })
    return Clock::start_thread(body);
  else
    return std::thread(body);
}
template <typename Clock = std::chrono::steady_clock>
void join(std::thread& thread) {
  if constexpr (requires { Clock::join(thread); })
    Clock::join(thread);
  else
    thread.join();
}

template <typename Clock>
struct mutex_of_clock {
  using type = std::mutex;
};
template <typename Clock>
  requires requires { typename Clock::mutex; }
struct mutex_of_clock<Clock> {
  using type = typename Clock::mutex;
};
/// A mutex that a thread may hold while it waits by the clock or for the network.
template <typename Clock>
using mutex_for = typename mutex_of_clock<Clock>::type;

}  // namespace detail

}  // namespace weft
