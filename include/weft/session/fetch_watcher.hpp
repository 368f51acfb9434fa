// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/config.hpp>

namespace weft::detail {

/// Called by the thread that runs a step, during the step, when a fetched value is final and the rest of the step does
/// not read it. The callee may overwrite the value. Steps with several lanes and steps on GPUs do not call it: their
/// values are final at the end of the step.
class fetch_watcher {
 public:
  virtual void ready(std::size_t fetch) = 0;

 protected:
  ~fetch_watcher() = default;
};

}  // namespace weft::detail
