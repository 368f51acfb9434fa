// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <weft/config.hpp>

namespace weft {

/// Records which updates of one worker have been applied, so that an update that is sent twice is applied once. An
/// update is identified by its step, which must not be negative, whichever process of the worker computed it. The
/// window covers the newest `width` steps; older steps count as applied.
class replay_window {
 public:
  static constexpr std::int64_t width = 64;

  /// Returns true if this update was applied before.
  bool contains(std::int64_t step) const {
    if (newest_ < 0) return false;
    if (step <= newest_ - width) return true;
    return step <= newest_ && ((seen_ >> (newest_ - step)) & 1u) != 0;
  }

  /// The newest step that has been applied; -1: none.
  std::int64_t newest() const { return newest_; }

  void insert(std::int64_t step) {
    if (newest_ < 0) {
      newest_ = step;
      seen_ = 1;
    } else if (step > newest_) {
      seen_ = step - newest_ < width ? (seen_ << (step - newest_)) | 1u : 1u;
      newest_ = step;
    } else if (step > newest_ - width) {
      seen_ |= std::uint64_t{1} << (newest_ - step);
    }
  }

  /// Bit k is set if step newest() - k has been applied.
  std::uint64_t seen() const { return seen_; }
  static replay_window of(std::int64_t newest, std::uint64_t seen) {
    replay_window all;
    all.newest_ = newest;
    all.seen_ = seen;
    return all;
  }

  /// Returns the window of a worker whose newest applied step in a checkpoint is `step`: all earlier steps count as
  /// applied.
  static replay_window up_to(std::int64_t step) {
    replay_window all;
    if (step < 0) return all;
    all.insert(step);
    all.seen_ = ~std::uint64_t{0};
    return all;
  }

 private:
  std::int64_t newest_ = -1;
  std::uint64_t seen_ = 0;  // bit k: step newest_ - k
};

}  // namespace weft
