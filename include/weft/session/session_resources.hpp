#pragma once

#include <string>

#include <weft/device/gpu/device.hpp>
#include <weft/plan/environment.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

class thread_pool;

/// Receives each kernel's start and end times (monotonic nanoseconds).
class step_observer {
 public:
  virtual void kernel_ran(const std::string& device, const std::string& node, const std::string& kernel,
                          std::uint64_t began, std::uint64_t ended) = 0;
  virtual void step_ended() = 0;

 protected:
  ~step_observer() = default;
};

namespace detail {

/// The resources of a session that its steps use: when they are planned, and when they run.
struct session_resources : plan::environment {
  const sequence<gpu::owned<thread_pool>>& pools;  ///< of each CPU device
  thread_pool* lane_threads;                       ///< one for each lane, where there are several
  const sequence<sequence<int>>& cores;            ///< of each CPU device, if its threads stay on them
  bool log_device_placement;
  step_observer* observer = nullptr;
};

}  // namespace detail
}  // namespace weft

WEFT_COLD_END
