// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <weft/error.hpp>

namespace weft {

/// The result of join(), with task names.
struct join_report {
  std::vector<std::string> finished;  ///< tasks that have finished; in a parameter server, workers that have reported
                                      ///< their end
  std::vector<std::string> lost;      ///< tasks that ended in another way, each with the reason
  /// Why join() returned early. unavailable: training requires a task that is gone, which the error names. aborted:
  /// other tasks have declared this one lost after a long silence, and wait for a replacement.
  std::optional<error> interrupted;
  std::int64_t lost_updates = 0;  ///< updates that an asynchronous server acknowledged and lost in a restart
  int signal = 0;                 ///< the signal that join() received; 0: none
};

}  // namespace weft
