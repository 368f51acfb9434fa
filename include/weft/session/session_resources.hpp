// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/error.hpp>
#include <weft/plan/environment.hpp>
#include <weft/tensor/owned.hpp>
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

/// The resources of a session that steps use, for planning and for running.
struct session_resources : plan::environment {
  const sequence<owned<thread_pool>>& pools;  ///< for each CPU device
  thread_pool* lane_threads;                  ///< one for each lane if there are several
  const sequence<sequence<int>>& cores;       ///< for each CPU device, if its threads are bound to cores
  bool log_device_placement;
  step_observer* observer = nullptr;

  /// Checked before each run: `closed`, plus `reader` once for each session that reads this session's variables, or
  /// once if this session reads those of another.
  static constexpr std::uint32_t closed = 1, reader = 2;
  mutable std::uint32_t status = 0;
  /// Throws failed_precondition with the reason why a step cannot run.
  [[noreturn]] void refuse_step() const;
};

#if WEFT_DEFINITIONS

WEFT_DECL void session_resources::refuse_step() const {
  throw error(error_code::failed_precondition, "step",
              __atomic_load_n(&status, __ATOMIC_RELAXED) & closed
                  ? "its session no longer exists: keep the session for as long as its steps are called"
                  : "writes variables that several sessions share: clone_for_inference() makes them read-only until "
                    "the clones are destroyed; then train in the session that was cloned");
}

#endif

}  // namespace detail
}  // namespace weft

WEFT_COLD_END
