// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <optional>

#include <weft/config.hpp>
#include <weft/deadline.hpp>

namespace weft::detail {

/// The signals that end all tasks of a job arrive within this time of each other.
inline constexpr std::chrono::milliseconds signal_skew{500};

/// Decides when a worker that has received a signal leaves alone, which counts as a loss. Before that, its updates
/// announce the signal: if all workers have received it, they stop after the same step. Two updates and signal_skew
/// leave the other workers time for their announcements.
class departure {
 public:
  /// Records that the worker has received a signal.
  void request() {
    if (!since_) since_ = detail::now();
  }
  bool is_requested() const { return since_.has_value(); }

  /// Records that an update with the announcement is complete, but not all workers stop. Returns true if this worker
  /// must leave.
  bool note_update() { return since_ && ++updates_ >= 2 && detail::now() - *since_ >= signal_skew; }

 private:
  std::optional<deadline::time_point> since_;
  int updates_ = 0;
};

}  // namespace weft::detail
