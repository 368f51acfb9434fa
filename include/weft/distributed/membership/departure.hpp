#pragma once

#include <chrono>
#include <optional>

#include <weft/config.hpp>
#include <weft/deadline.hpp>

namespace weft::detail {

/// The signals that end all tasks of a job arrive within this time.
inline constexpr std::chrono::milliseconds signal_skew{500};

/// Decides when a worker that has received a signal leaves while the others continue, which counts as a loss. Before
/// that it announces the signal with its updates: if all workers have received it, they all stop after the same step.
/// Two updates and signal_skew give the others the time to announce theirs.
class departure {
 public:
  /// The worker has received a signal.
  void request() {
    if (!since_) since_ = detail::now();
  }
  bool is_requested() const { return since_.has_value(); }

  /// An update that announced the signal is complete, and not all workers stop. Returns true if this worker leaves.
  bool note_update() { return since_ && ++updates_ >= 2 && detail::now() - *since_ >= signal_skew; }

 private:
  std::optional<deadline::time_point> since_;
  int updates_ = 0;
};

}  // namespace weft::detail
