#pragma once

#include <cstddef>
#include <string>

#include <weft/device/cpu/thread_pool.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/graph/extent_bindings.hpp>
#include <weft/plan/device_number.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

WEFT_COLD_BEGIN
namespace weft {

class graph;
namespace plan {
class placement;
class gpu_support;
}  // namespace plan

/// Where a session keeps a variable: on the host, or on the GPU that it is placed on.
struct variable_state {
  storage data;
  std::byte* on_gpu = nullptr;
  plan::device_number where;
  bool initialized = false;
  std::byte* address() const { return where.gpu ? on_gpu : data.data(); }
};

/// Receives each kernel's start and end times (monotonic nanoseconds).
class step_observer {
 public:
  virtual void kernel_ran(const std::string& device, const std::string& node, const std::string& kernel,
                          std::uint64_t began, std::uint64_t ended) = 0;
  virtual void step_ended() = 0;

 protected:
  ~step_observer() = default;
};

/// Where a session is in its random numbers, as random_position_op has it. Steps that draw some read it, and go on to
/// the next one when they have run to their end.
struct random_state {
  static constexpr std::int64_t steps = std::int64_t{1} << 48, streams = std::int64_t{1} << 15;

  std::int64_t position = 0;

  std::int64_t step() const { return position % steps; }
  std::int64_t stream() const { return position / steps; }
};

/// What a session has that its steps use.
struct session_resources {
  const plan::placement& place;
  sequence<variable_state>& variables;
  const extent_bindings& extents;  ///< that the graph has given values to
  const memory_resource& memory;
  plan::gpu_support* gpus;  ///< null in programs without GPUs
  std::size_t lanes_per_device;
  const sequence<gpu::owned<thread_pool>>& pools;  ///< of each CPU device
  thread_pool* lane_threads;                       ///< one for each lane, where there are several
  const sequence<sequence<int>>& cores;            ///< of each CPU device, if its threads stay on them
  random_state& random;
};

}  // namespace weft

WEFT_COLD_END
