#pragma once

#include <cstddef>

#include <weft/config.hpp>

namespace weft::detail {

/// Called while a step runs, by the thread that runs it, when a fetched value is final and nothing later in the step
/// reads it: it may be overwritten. Steps with several lanes and steps on GPUs do not call it; all values are final
/// when the step has ended.
class fetch_watcher {
 public:
  virtual void ready(std::size_t fetch) = 0;

 protected:
  ~fetch_watcher() = default;
};

}  // namespace weft::detail
