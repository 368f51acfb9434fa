// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <time.h>

#include <cstdint>

#include <weft/config.hpp>

namespace weft::data {

/// The time at which a wait must end. Converts from a deadline or its arguments, without `<chrono>`, which would double
/// the included code of a program that reads data.
class time_limit {
 public:
  static constexpr time_limit never() { return time_limit(); }

  template <class Within>
    requires requires(const Within& w) { w.at().time_since_epoch().count(); }
  time_limit(const Within& deadline) : at_(deadline.at().time_since_epoch().count()) {
    using clock = typename decltype(deadline.at())::clock;
    using period = typename clock::period;
    static_assert(period::num == 1 && period::den == second, "the clock of the deadline must count nanoseconds");
    static_assert(clock::is_steady, "the clock of the deadline must be std::chrono::steady_clock");
  }
  template <class Duration>
    requires requires(const Duration& d) { Duration::period::num, d.count(); }
  time_limit(const Duration& from_now) {
    const double wait = static_cast<double>(from_now.count()) *
                        (static_cast<double>(Duration::period::num) / static_cast<double>(Duration::period::den));
    const std::int64_t start = now();
    if (wait < static_cast<double>(end_of_time - start) / 1e9)
      at_ = wait > 0 ? start + static_cast<std::int64_t>(wait * 1e9) : start;
  }

  bool is_never() const { return at_ == end_of_time; }
  bool expired() const { return !is_never() && now() >= at_; }
  /// A time of CLOCK_MONOTONIC, the clock of std::chrono::steady_clock.
  timespec at() const { return {at_ / second, at_ % second}; }

 private:
  static constexpr std::int64_t second = 1'000'000'000, end_of_time = INT64_MAX;

  constexpr time_limit() = default;
  static std::int64_t now() {
    timespec time;
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * second + time.tv_nsec;
  }

  std::int64_t at_ = end_of_time;
};

}  // namespace weft::data
