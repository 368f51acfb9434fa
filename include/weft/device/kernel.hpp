#pragma once

#include <cstddef>
#include <string>

#include <weft/device/cpu/thread_pool.hpp>

namespace weft {

namespace gpu {
class queue;
}

/// What a kernel sees when it runs: where each buffer of the step lies, and what does the work: the threads that it may
/// use or, of a GPU's kernel, the queue that it is put into.
struct frame {
  std::byte* const* buffers;
  thread_pool* threads;
  gpu::queue* queue = nullptr;
};

/// The code of one operation on one device, prepared for known extents. Runs any number of times and allocates nothing.
class kernel {
 public:
  kernel() = default;
  kernel(const kernel&) = delete;
  kernel& operator=(const kernel&) = delete;
  virtual ~kernel() = default;
  virtual void run(const frame&) = 0;
  /// What it asks its GPU's queue for (queue::workspace) when it runs, in bytes.
  virtual std::size_t workspace_bytes() const { return 0; }
  /// One line for `explain`: the routine, and what it fuses.
  virtual std::string describe() const = 0;
};

}  // namespace weft
