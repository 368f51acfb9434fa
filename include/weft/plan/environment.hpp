#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/extent_bindings.hpp>
#include <weft/plan/device_number.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

class placement;
class gpu_support;
class task_support;

/// Where a session keeps a variable: on the host, or on the GPU that it is placed on.
struct variable_state {
  storage data;
  std::byte* on_gpu = nullptr;
  device_number where;
  bool initialized = false;
  std::byte* address() const { return where.gpu ? on_gpu : data.data(); }
};

/// Where a session is in its random numbers, as random_position_op has it. Steps that draw some read it, and go on to
/// the next one when they have run to their end.
struct random_state {
  static constexpr std::int64_t steps = std::int64_t{1} << 48, streams = std::int64_t{1} << 15;

  std::int64_t position = 0;

  std::int64_t step() const { return position % steps; }
  std::int64_t stream() const { return position / steps; }
};

/// A session, as far as steps are planned for it.
struct environment {
  const placement& place;
  sequence<variable_state>& variables;
  const extent_bindings& extents;  ///< that the graph has given values to
  const memory_resource& memory;
  gpu_support* gpus;    ///< null in programs without GPUs
  task_support* tasks;  ///< null where steps run in one task
  std::size_t cpus, lanes_per_device;
  random_state& random;
};

}  // namespace weft::plan

WEFT_COLD_END
