// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/graph/extent_bindings.hpp>
#include <weft/plan/program.hpp>
#include <weft/tensor/owned.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// A GPU's state for a binding; see gpu_step.
class gpu_binding {
 public:
  virtual ~gpu_binding() = default;
};

/// A program for known extents: a kernel for each instruction and an address for each buffer.
struct binding {
  /// Fed operands, with the extents that the binding is valid for, and fetched operands.
  struct fed_operand {
    shape extents;
    std::uint32_t buffer;
  };
  struct fetched_operand {
    shape extents;
    std::size_t bytes;
    std::uint32_t buffer;
    bool to_caller;  ///< computed in memory that the caller provides
  };

  sequence<fed_operand> fed;
  sequence<fetched_operand> fetched;
  std::uint64_t hash = 0;   ///< of the extents of the fed values
  binding* next = nullptr;  ///< see binding_cache
  std::size_t bytes = 0;    ///< memory_bytes() when the binding was created
  extent_bindings extents;
  sequence<std::int64_t> names;     ///< the values of program_extents::names
  sequence<kernel_handle> kernels;  ///< for each instruction
  sequence<std::byte*> addresses;   ///< for each buffer
  sequence<std::byte*> bases;       ///< for each arena, when the addresses were computed
  sequence<std::size_t> arena_bytes;
  sequence<std::byte*> workspaces;       ///< for each instruction; null if its kernel needs none on a CPU
  sequence<std::size_t> subgraph_bytes;  ///< for each node with subgraphs: the memory that it needs while it runs
  owned<gpu_binding> on_gpus;

  /// An estimate of the memory held. Kernels that bindings share count for each of them.
  std::size_t memory_bytes() const {
    std::size_t held = addresses.memory_bytes() + workspaces.memory_bytes();
    for (const kernel_handle& k : kernels) held += 1024 + k->memory_bytes();
    return held;
  }
  bool is_for(const fed_value* given) const;
  void feed(const fed_value* given);
};

WEFT_COLD_END

// Every step calls these functions, so they are optimized for speed.
inline bool binding::is_for(const fed_value* given) const {
  for (std::size_t i = 0; i < fed.size(); ++i)
    if (!(fed[i].extents == given[i].extents)) return false;
  return true;
}
inline void binding::feed(const fed_value* given) {
  for (std::size_t i = 0; i < fed.size(); ++i)
    addresses[fed[i].buffer] = static_cast<std::byte*>(const_cast<void*>(given[i].data));
}

}  // namespace weft::plan
