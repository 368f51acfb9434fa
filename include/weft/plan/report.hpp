// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/plan/arenas.hpp>
#include <weft/plan/binding.hpp>
#include <weft/plan/compile.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Describes a step: its kernels in order, its memory and the decisions of the passes. `current`: the binding that ran
/// last, or null. `bindings`: the number of bindings.
std::string describe(const compiled_step&, const binding* current, std::size_t bindings);

/// Returns the device of each operation in TensorFlow's format.
std::string placement_log(const program&, const placement&);

/// Returns the total size of a binding's arenas.
inline std::size_t arena_bytes(const binding& b) {
  std::size_t bytes = 0;
  for (const std::size_t of_arena : b.arena_bytes) bytes += of_arena;
  return bytes;
}

#if WEFT_DEFINITIONS

WEFT_DECL std::string describe(const compiled_step& step, const binding* current, std::size_t bindings) {
  const program& p = *step.made;
  std::string text;
  if (!current) {
    text = "not planned yet, since its extents are not known before the first call; nodes in order:\n";
    for (std::uint32_t n = 0; n < p.running; ++n) append(text, {"  ", p.name(n), "\n"});
    return text;
  }
  std::size_t fused = 0, forwarded = 0, separate = 0, assigned = 0, copies = 0, workspaces = 0;
  for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
    const instruction& in = p.instructions[i];
    append(text, {i, "  ", p.lane_name(in), "  ", p.name(in.node), "  ", current->kernels[i]->describe()});
    if (in.assigned != none) append(text, {" into ", p.name(in.assigned)});
    if (!in.dependencies.empty()) {
      text += "  waits for";
      for (const std::uint32_t w : in.dependencies) append(text, {" ", w});
    }
    text += "\n";
    current->kernels[i]->describe_subgraphs(text, 6);
    fused += in.leader != none, assigned += in.assigned != none, copies += in.kind == instruction_kind::copy;
    workspaces += workspace_bytes(p, *current, i);
  }
  extent_bindings known = current->extents;
  for (const step_buffer& b : p.buffers) {
    forwarded += b.forwarded_from != none;
    if (b.kind != buffer_kind::arena) continue;
    value_info info = b.declared;
    info.extents = known.resolve(p.g, "step", info.extents);
    separate += info.bytes();
  }
  if (step.gpus) step.gpus->describe(p, *current, text);
  const placement& place = step.session.place;
  for (std::uint32_t n = 0; n < p.running; ++n)
    if (p.computes(n) && (step.gpus ? !p.nodes[n].on.gpu : place.moved(p.nodes[n].number)))
      append(text, {p.name(n), " ", place.explain(p.nodes[n].number), "\n"});
  append(text, {"prune: ", p.running, " of ", p.g.size(), " nodes; order: ", p.snapshot_readers.size(),
                " reads of old values; fusion: ", fused, " kernels include another; copies: ", copies,
                "; in-place assignment: ", assigned, "; forwarding: ", forwarded, " buffers; lanes: ", p.lanes.size(),
                "; bindings: ", bindings, "\n"});
  append(text, {p.instructions.size(), " kernels; ", arena_bytes(*current), " bytes of memory for ", separate,
                " bytes of intermediate values"});
  if (workspaces) append(text, {" and ", workspaces, " bytes of workspaces"});
  text += "\n";
  return text;
}

WEFT_DECL std::string placement_log(const program& p, const placement& place) {
  std::string text;
  for (std::uint32_t n = 0; n < p.running; ++n)
    if (p.computes(n) || is_operation<variable_op>(p.def(n).op))
      append(text, {p.name(n), ": (", p.op(n).name, "): ", place.full_name(p.nodes[n].on), "\n"});
  return text;
}

#endif

}  // namespace weft::plan

WEFT_COLD_END
