#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <weft/error.hpp>

namespace weft {

/// How a parameter server's work ended, by task names.
struct join_report {
  std::vector<std::string> finished;  ///< those that have done their work: of a server's workers, those that said so
  std::vector<std::string> lost;      ///< those that ended otherwise, each with the reason
  /// Why join() returned early. unavailable: training needed a task that is gone, which it names. aborted: other tasks
  /// have declared this one lost, since it was silent for too long, and wait for a process that takes its place.
  std::optional<error> interrupted;
  std::int64_t lost_updates = 0;  ///< that an asynchronous server had acknowledged before it was started again
  int signal = 0;                 ///< that the server received while it served; 0: none
};

}  // namespace weft
