#pragma once

#include <weft/config.hpp>

namespace weft::detail {

/// Ends loops and waits of a thread: those of a step that other processes take part in, and may cancel.
class step_watch {
 public:
  /// Whether the step has been cancelled, or its time is over. Asked by a wait a few dozen times in a second, and by a
  /// loop before each iteration.
  virtual bool is_over() = 0;

 protected:
  ~step_watch() = default;
};
inline WEFT_API thread_local step_watch* watch_of_thread = nullptr;

}  // namespace weft::detail
