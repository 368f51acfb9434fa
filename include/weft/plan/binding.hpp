#pragma once

#include <weft/graph/extent_bindings.hpp>
#include <weft/plan/program.hpp>
#include <weft/tensor/owned.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// The state that a GPU keeps for a binding; see gpu_step.
class gpu_binding {
 public:
  virtual ~gpu_binding() = default;
};

/// A program for known extents: a kernel for each instruction, and an address for each buffer.
struct binding {
  /// The operands that are fed, in the extents that the binding is for, and fetched.
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
  std::uint64_t hash = 0;   ///< made of the extents of what is fed
  binding* next = nullptr;  ///< see binding_cache
  std::size_t bytes = 0;    ///< that it holds, when it was made
  extent_bindings extents;
  sequence<std::int64_t> names;     ///< the values of program_extents::names
  sequence<kernel_handle> kernels;  ///< each instruction's
  sequence<std::byte*> addresses;   ///< each buffer's
  sequence<std::byte*> bases;       ///< each arena's, when the addresses were made
  sequence<std::size_t> arena_bytes;
  sequence<std::byte*> workspaces;       ///< of each instruction's kernel, where it asks for one on a CPU; null
  sequence<std::size_t> subgraph_bytes;  ///< that each node with subgraphs needs while it runs
  owned<gpu_binding> on_gpus;

  /// About what it holds: kernels are shared, but counted for each.
  std::size_t memory_bytes() const {
    std::size_t held = addresses.memory_bytes() + workspaces.memory_bytes();
    for (const kernel_handle& k : kernels) held += 1024 + k->memory_bytes();
    return held;
  }
  bool is_for(const fed_value* given) const;
  void feed(const fed_value* given);
};

WEFT_COLD_END

// The functions that each step goes through are compiled in full.
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
