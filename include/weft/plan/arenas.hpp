// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/plan/binding.hpp>
#include <weft/plan/environment.hpp>
#include <weft/plan/gpu_support.hpp>
#include <weft/plan/memory_plan.hpp>
#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Returns the workspace that an instruction's kernel needs in the arena, in bytes. GPU queues have their own
/// workspace.
inline std::size_t workspace_bytes(const program& p, const binding& b, std::uint32_t instruction) {
  return p.instructions[instruction].on.gpu ? 0 : b.kernels[instruction]->workspace_bytes();
}

/// Assigns memory to buffers and kernel workspaces: buffers whose lifetimes do not overlap share memory, and a
/// workspace lives for one instruction. Results are offsets in the arena.
class buffer_assignment {
 public:
  /// The binding must have its kernels.
  buffer_assignment(const program& p, const value_info* infos, const binding& of)
      : plans_(p.arenas.size()), offsets_(p.buffers.size(), 0), workspaces_(p.instructions.size(), 0) {
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
      if (const std::size_t bytes = workspace_bytes(p, of, i)) {
        memory_plan& plan = plans_[workspace_arena(p, i)];
        workspaces_[i] = plan.allocate(bytes);
        plan.release(workspaces_[i], bytes);
      }
      for (std::uint32_t b = last[i]; b != none; b = ends[b])
        plans_[p.buffers[b].arena].release(offsets_[b], infos[b].bytes());
    }
  }

  std::size_t offset(std::uint32_t b) const { return offsets_[b]; }
  std::size_t workspace_offset(std::uint32_t instruction) const { return workspaces_[instruction]; }
  static std::uint32_t workspace_arena(const program& p, std::uint32_t instruction) {
    return p.arena_of(p.instructions[instruction].lane, 0);
  }
  std::size_t bytes(std::size_t arena) const { return plans_[arena].total(); }

 private:
  sequence<memory_plan> plans_;
  sequence<std::size_t> offsets_, workspaces_;
};

/// A step's memory: one block for each arena, large enough for all bindings.
class arena_memory {
 public:
  /// Grows the blocks to the size that a binding needs.
  void reserve(const program&, const environment&, gpu_step*, const binding&);
  /// The same, and updates the binding's addresses: a block may have moved since the binding last ran.
  void refresh(const program&, const environment&, gpu_step*, binding&);

  const sequence<std::byte*>& bases() const { return bases_; }

 private:
  sequence<storage> blocks_;  // the host's blocks
  sequence<std::byte*> bases_;
  sequence<std::size_t> block_bytes_;
};

#if WEFT_DEFINITIONS

WEFT_DECL void arena_memory::reserve(const program& p, const environment& session, gpu_step* gpus, const binding& b) {
  blocks_.resize(p.arenas.size());
  bases_.resize(p.arenas.size());
  block_bytes_.resize(p.arenas.size());
  for (std::size_t a = 0; a < p.arenas.size(); ++a) {
    if (b.arena_bytes[a] <= block_bytes_[a]) continue;
    block_bytes_[a] = 0;
    if (p.arenas[a].kind == arena_info::kind_type::host) {
      blocks_[a] = {};
      blocks_[a] = storage(b.arena_bytes[a], session.memory);
      bases_[a] = blocks_[a].data();
    } else {
      bases_[a] = gpus->allocate(p, a, b.arena_bytes[a]);
    }
    block_bytes_[a] = b.arena_bytes[a];
  }
}

WEFT_DECL void arena_memory::refresh(const program& p, const environment& session, gpu_step* gpus, binding& b) {
  reserve(p, session, gpus, b);
  if (b.bases == bases_) return;
  const auto move = [&](std::byte*& at, std::uint32_t arena) { at = bases_[arena] + (at - b.bases[arena]); };
  for (std::uint32_t i = 0; i < p.buffers.size(); ++i)
    if (p.buffers[i].kind == buffer_kind::arena) move(b.addresses[i], p.buffers[i].arena);
  for (std::uint32_t i = 0; i < p.instructions.size(); ++i)
    if (workspace_bytes(p, b, i) != 0) move(b.workspaces[i], buffer_assignment::workspace_arena(p, i));
  b.bases = bases_;
  if (gpus) gpus->rebind(b);
}

#endif

}  // namespace weft::plan

WEFT_COLD_END
