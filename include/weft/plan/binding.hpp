#pragma once

#include <weft/device/gpu/device.hpp>
#include <weft/graph/extent_bindings.hpp>
#include <weft/plan/memory_plan.hpp>
#include <weft/plan/operand_table.hpp>
#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// A value on its way into a step: where its elements are, and their extents.
struct fed_value {
  const void* data;
  shape extents;
};

/// What a GPU keeps for a binding; see gpu_step.
class gpu_binding {
 public:
  virtual ~gpu_binding() = default;
};

/// A program for known extents: a kernel for each instruction, and an address for each buffer.
struct binding {
  /// What is fed, in the extents that the binding is for, and fetched.
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
  std::uint64_t hash = 0;   ///< of the extents of what is fed
  binding* next = nullptr;  ///< see binding_cache
  std::size_t bytes = 0;    ///< that it holds, when it was made
  extent_bindings extents;
  sequence<std::int64_t> names;     ///< the values of program_extents::names
  sequence<kernel_handle> kernels;  ///< of each instruction
  sequence<std::byte*> addresses;   ///< of each buffer
  sequence<std::byte*> bases;       ///< of each arena, when the addresses were made
  sequence<std::size_t> arena_bytes;
  sequence<std::size_t> workspaces;  ///< bytes that each node with bodies needs while it runs
  gpu::owned<gpu_binding> on_gpus;

  /// About what it holds: kernels are shared, but counted for each.
  std::size_t memory_bytes() const {
    std::size_t held = addresses.memory_bytes();
    for (const kernel_handle& k : kernels) held += 1024 + k->memory_bytes();
    return held;
  }
  bool is_for(const fed_value* given) const;
  void feed(const fed_value* given);
};

WEFT_COLD_END

// What each step goes through is compiled in full.
inline bool binding::is_for(const fed_value* given) const {
  for (std::size_t i = 0; i < fed.size(); ++i)
    if (!(fed[i].extents == given[i].extents)) return false;
  return true;
}
inline void binding::feed(const fed_value* given) {
  for (std::size_t i = 0; i < fed.size(); ++i)
    addresses[fed[i].buffer] = static_cast<std::byte*>(const_cast<void*>(given[i].data));
}

WEFT_COLD_BEGIN

/// The names in a program's extents that are known when it runs, and which of them each instruction depends on.
class program_extents {
 public:
  program_extents(const program& p, const operand_table& operands, const extent_bindings& fixed) {
    masks_.resize(p.instructions.size());
    for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
      const instruction& in = p.instructions[i];
      const auto add_extents = [&](const shape& extents) {
        for (std::size_t a = 0; a < extents.rank; ++a)
          if (extents[a] < 0 && !fixed.find(extents[a])) masks_[i] |= std::uint64_t{1} << number_of(extents[a]) % 64;
      };
      const auto add = [&](std::uint32_t b) { add_extents(p.buffers[b].declared.extents); };
      for (const std::uint32_t b : in.reads) add(b);
      for (const std::uint32_t b : in.writes) add(b);
      for (const std::uint32_t n : {in.node, in.leader}) {
        if (n == none || in.copies) continue;
        for (std::size_t k = 0; k < operands.count(n); ++k) add(operands.buffers(n)[k]);
        add_bodies(p.g, p.def(n), add_extents);
      }
    }
  }

  const sequence<std::int64_t>& names() const { return names_; }

  /// Whether an instruction's extents are the same under two sets of values of the names.
  bool same(std::uint32_t i, const sequence<std::int64_t>& a, const sequence<std::int64_t>& b) const {
    for (std::size_t k = 0; masks_[i] && k < a.size(); ++k)
      if ((masks_[i] >> k % 64) & 1 && a[k] != b[k]) return false;
    return true;
  }

 private:
  template <class Add>
  __attribute__((noinline)) static void add_bodies(const graph& g, const node_def& c, const Add& add) {
    for (const std::uint32_t b : c.bodies) {
      const graph& body = g.body(b).nodes;
      for (std::uint32_t n = 0; n < body.size(); ++n) {
        for (const value_info& v : body[n].def.outputs) add(v.extents);
        add_bodies(g, body[n].def, add);
      }
    }
  }

  std::size_t number_of(std::int64_t code) {
    std::size_t k = 0;
    while (k < names_.size() && names_[k] != code) ++k;
    if (k == names_.size()) names_.push_back(code);
    return k;
  }

  sequence<std::int64_t> names_;
  sequence<std::uint64_t> masks_;
};

/// Gives buffers that are never needed at the same time the same place. Returns the offset of each in its arena.
class buffer_assignment {
 public:
  buffer_assignment(const program& p, const value_info* infos)
      : plans_(p.arenas.size()), offsets_(p.buffers.size(), 0) {
    sequence<std::uint32_t> ends(p.buffers.size(), none), last(p.instructions.size(), none);  // lists by instruction
    for (std::uint32_t b = 0; b < p.buffers.size(); ++b) {
      const step_buffer& buffer = p.buffers[b];
      if (buffer.kind != buffer_kind::arena) continue;
      if (buffer.reserved) offsets_[b] = plans_[buffer.arena].allocate(infos[b].bytes());
      if (buffer.last != none) ends[b] = last[buffer.last], last[buffer.last] = b;
    }
    for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
      for (const std::uint32_t b : p.instructions[i].writes) {
        const step_buffer& buffer = p.buffers[b];
        if (buffer.kind != buffer_kind::arena || buffer.first != i || buffer.reserved) continue;
        offsets_[b] = buffer.forwarded_from != none ? offsets_[buffer.forwarded_from]
                                                    : plans_[buffer.arena].allocate(infos[b].bytes());
      }
      for (std::uint32_t b = last[i]; b != none; b = ends[b])
        plans_[p.buffers[b].arena].release(offsets_[b], infos[b].bytes());
    }
  }

  std::size_t offset(std::uint32_t b) const { return offsets_[b]; }
  std::size_t bytes(std::size_t arena) const { return plans_[arena].total(); }

 private:
  sequence<memory_plan> plans_;
  sequence<std::size_t> offsets_;
};

}  // namespace weft::plan

WEFT_COLD_END
