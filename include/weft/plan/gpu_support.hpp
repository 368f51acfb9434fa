// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/tensor/sequence.hpp>

namespace weft {

/// How a session uses GPUs (tf.GPUOptions).
struct gpu_options {
  /// The fraction of a GPU's memory that the session may use, including workspaces of kernels and libraries. CUDA's own
  /// memory is not included (gpu_memory.hpp).
  double memory_fraction = 1;
  /// If true, memory is allocated on demand. If false, the session allocates its whole share when it first uses the
  /// GPU; if memory_fraction is 1, the free memory minus half a gigabyte for CUDA's libraries.
  bool allow_growth = true;
  /// Splits the first GPU: `cuda{n}` is the n-th part, with this many bytes. Empty: every GPU is one device.
  sequence<std::size_t> virtual_devices;
  /// If true, records a step on its second run and launches it as a whole (CUDA graphs) from then on.
  bool record_steps = true;
  /// If true, waits for every kernel, so that errors name the kernel that failed. Slow; for debugging.
  bool synchronous = false;
};

struct prepare_context;
struct product_fusion;
struct value_info;
class kernel;
class thread_pool;

namespace detail {
struct step_times;
}

namespace plan {

struct binding;
struct instruction;
struct program;

/// The GPU part of a step: passes over its program, and the GPU state of each binding.
class gpu_step {
 public:
  virtual ~gpu_step() = default;

  /// Passes over the program. `infos`: for each buffer, its type and extents when the step first runs.
  virtual void assign_layouts(program&, const value_info* infos) = 0;
  virtual void insert_copies(program&) = 0;
  virtual void list_stages(const program&) = 0;

  /// Allocates a block for an arena, which replaces the arena's previous block.
  virtual std::byte* allocate(const program&, std::size_t arena, std::size_t bytes) = 0;
  virtual kernel* prepare(const program&, std::uint32_t node, const prepare_context&, const product_fusion*) = 0;
  virtual kernel* prepare_copy(const program&, const instruction&, const value_info* infos) = 0;
  /// Called when a binding has its kernels and addresses.
  virtual void bind(const program&, binding&, const value_info* infos) = 0;
  /// Called when a binding's addresses have changed.
  virtual void rebind(binding&) = 0;
  /// Runs a binding. `times`: receives measurements if it is not null.
  virtual void run(const program&, binding&, thread_pool&, detail::step_times* times) = 0;
  virtual void describe(const program&, const binding&, std::string& text) const = 0;
};

/// GPU support of a session, implemented in gpu_session.hpp. An interface, so that programs without GPU code do not
/// compile the implementation.
class gpu_support {
 public:
  virtual ~gpu_support() = default;
  virtual std::size_t count() const = 0;
  /// Allocates memory for a variable, which the session owns. Throws resource_exhausted.
  virtual std::byte* allocate(std::size_t gpu, std::size_t bytes, const std::string& owner) = 0;
  /// Copies to or from a variable's memory, and waits for completion.
  virtual void copy(std::size_t gpu, void* to, const void* from, std::size_t bytes) = 0;
  virtual gpu_step* new_step() = 0;
};

/// Creates the GPU support of a session. A file that includes <weft/cuda.hpp> sets this pointer at program start;
/// otherwise it is null.
inline WEFT_API gpu_support* (*new_gpu_support)(const gpu_options&) = nullptr;

/// The reason why there is no GPU, worded as the end of a sentence.
inline WEFT_API std::string (*no_gpu_reason)() = [] {
  return std::string("this program contains no GPU code: include <weft/cuda.hpp>");
};

}  // namespace plan
}  // namespace weft
