#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/tensor/sequence.hpp>

namespace weft {

/// How a session uses the GPUs (tf.GPUOptions).
struct gpu_options {
  /// The share of a GPU's memory that the session may hold: never more, whatever the steps need, workspaces of kernels
  /// and libraries included. What CUDA takes by itself comes on top (gpu_memory.hpp).
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

class graph;
class schedule;
class extent_bindings;
class plan;
struct step_request;
struct variable_state;
struct session_devices;

/// What a session does with GPUs. Programs that know no GPU do not pay for it: gpu_session.hpp is behind this.
class gpu_support {
 public:
  virtual ~gpu_support() = default;
  virtual std::size_t count() const = 0;
  /// Memory for a variable; it lives as long as the session does. Throws resource_exhausted.
  virtual std::byte* allocate(std::size_t gpu, std::size_t bytes, const std::string& owner) = 0;
  /// To or from a variable's memory; waits until it is done.
  virtual void copy(std::size_t gpu, void* to, const void* from, std::size_t bytes) = 0;
  virtual plan* new_plan(const graph&, const schedule&, const step_request&, const extent_bindings&,
                         sequence<variable_state>&, const session_devices&) = 0;
};

/// Makes it for a session. Set when the program starts by a file that includes <weft/cuda.hpp>; null in others.
inline gpu_support* (*new_gpu_support)(const gpu_options&) = nullptr;

/// Why there is no GPU, as a sentence's end.
inline std::string (*no_gpu_reason)() = [] { return std::string("this program knows none: include <weft/cuda.hpp>"); };

}  // namespace weft
