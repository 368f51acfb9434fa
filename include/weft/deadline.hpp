// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <weft/time_source.hpp>

namespace weft {

/// The time by which a call must have completed. Written as a duration from now, `client.pull(out, 5s)`. To wait
/// without limit, write deadline::never().
class deadline {
 public:
  using time_point = detail::time_source::time_point;
  using duration = time_point::duration;

  template <typename Rep, typename Period>
  deadline(std::chrono::duration<Rep, Period> from_now) : at_(after(from_now)) {}
  explicit deadline(time_point at) : at_(at) {}

  static deadline never() { return deadline(time_point::max()); }

  bool expired() const { return at_ != time_point::max() && detail::now() >= at_; }

  /// Returns the remaining time, at least zero and at most `most`.
  duration remaining(duration most = duration::max()) const {
    if (at_ == time_point::max()) return most;
    return std::clamp(at_ - detail::now(), duration::zero(), most);
  }

  /// Returns the remaining microseconds for a frame's header: at least 1, or 0 for deadline::never().
  std::uint64_t remaining_us() const {
    if (at_ == time_point::max()) return 0;
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(remaining()).count();
    return static_cast<std::uint64_t>(std::max<decltype(left)>(left, 1));
  }

  time_point at() const { return at_; }

 private:
  template <typename Duration>
  static time_point after(Duration from_now) {
    const auto now = detail::now();
    if (std::chrono::duration<double>(from_now) >= std::chrono::duration<double>(time_point::max() - now))
      return time_point::max();
    if (from_now < Duration::zero()) return now;  // a very negative duration must not overflow
    return now + std::chrono::duration_cast<duration>(from_now);
  }

  time_point at_;
};

}  // namespace weft
