#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/tensor/sequence.hpp>

namespace weft {

/// How a session uses the GPUs (tf.GPUOptions).
struct gpu_options {
  /// The share of a GPU's memory that the session may hold: never more, whatever the steps need, workspaces of kernels
  /// and libraries included. The memory that CUDA takes by itself comes on top (gpu_memory.hpp).
  double memory_fraction = 1;
  /// Memory is taken when it is needed. If not, the whole share is taken when the session first uses the GPU; of a
  /// share of 1, what is free then, less half a gigabyte for CUDA's libraries.
  bool allow_growth = true;
  /// Splits the first GPU: `cuda{n}` is the n-th part, of this many bytes. Empty: every GPU is one device.
  sequence<std::size_t> virtual_devices;
  /// Whether a step is recorded on its second run and launched as a whole (CUDA graphs) from then on.
  bool record_steps = true;
  /// Waits for every kernel, so that a failing one is named. Slow: for looking for a mistake.
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

/// The part that GPUs play in a step: passes over its program, and what each binding of it needs.
class gpu_step {
 public:
  virtual ~gpu_step() = default;

  /// Passes. `infos`: of each buffer, what it is when the step first runs.
  virtual void assign_layouts(program&, const value_info* infos) = 0;
  virtual void insert_copies(program&) = 0;
  virtual void list_stages(const program&) = 0;

  /// A block of memory for an arena, in place of the one that it had before.
  virtual std::byte* allocate(const program&, std::size_t arena, std::size_t bytes) = 0;
  virtual kernel* prepare(const program&, std::uint32_t node, const prepare_context&, const product_fusion*) = 0;
  virtual kernel* prepare_copy(const program&, const instruction&, const value_info* infos) = 0;
  /// When a binding has its kernels and addresses.
  virtual void bind(const program&, binding&, const value_info* infos) = 0;
  /// When its addresses have changed.
  virtual void rebind(binding&) = 0;
  /// Runs it. `times`: where to measure; null: not at all.
  virtual void run(const program&, binding&, thread_pool&, detail::step_times* times) = 0;
  virtual void describe(const program&, const binding&, std::string& text) const = 0;
};

/// The work of a session with GPUs. Programs that contain no GPU code do not pay for it: gpu_session.hpp is behind
/// this.
class gpu_support {
 public:
  virtual ~gpu_support() = default;
  virtual std::size_t count() const = 0;
  /// Memory for a variable; it lives as long as the session does. Throws resource_exhausted.
  virtual std::byte* allocate(std::size_t gpu, std::size_t bytes, const std::string& owner) = 0;
  /// To or from a variable's memory; waits until it is done.
  virtual void copy(std::size_t gpu, void* to, const void* from, std::size_t bytes) = 0;
  virtual gpu_step* new_step() = 0;
};

/// Makes it for a session. Set when the program starts by a file that includes <weft/cuda.hpp>; null in others.
inline WEFT_API gpu_support* (*new_gpu_support)(const gpu_options&) = nullptr;

/// Why there is no GPU, as a sentence's end.
inline WEFT_API std::string (*no_gpu_reason)() = [] {
  return std::string("this program contains no GPU code: include <weft/cuda.hpp>");
};

}  // namespace plan
}  // namespace weft
