// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/config.hpp>

namespace weft::detail {

/// Ends a thread's loops and waits in a step that other processes share and can cancel.
class step_watch {
 public:
  /// Returns true if the step was cancelled or timed out. Waits call it a few dozen times per second, and loops before
  /// each iteration.
  virtual bool is_over() = 0;

 protected:
  ~step_watch() = default;
};
inline WEFT_API thread_local step_watch* watch_of_thread = nullptr;

}  // namespace weft::detail
