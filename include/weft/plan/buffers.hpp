// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/plan/placement.hpp>
#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Assigns a device to each node. `where(n)` returns the device of the variable that graph node n is or writes,
/// otherwise the placement's decision.
template <class Where>
void place(program& p, const Where& where) {
  for (std::uint32_t n = 0; n < p.running; ++n) {
    step_node& node = p.nodes[n];
    const operation* const o = p.def(n).op;
    if (is_operation<placeholder_op>(o) || is_operation<constant_op>(o) || is_operation<group_op>(o) || o->alias)
      continue;
    node.on = where(node.number);
    if (node.on.gpu && node.on.task == p.self && node.on.ordinal >= p.gpus) p.gpus = node.on.ordinal + 1;
  }
}

/// Gives every value a buffer. Values that share elements share a buffer: a reshaped value uses its operand's, and the
/// result of a write uses the variable's.
inline void number_buffers(program& p) {
  for (std::uint32_t n = 0; n < p.nodes.size(); ++n) {
    step_node& node = p.nodes[n];
    const node_def& c = p.def(n);
    node.first_buffer = static_cast<std::uint32_t>(p.buffers.size());
    for (const value_info& v : c.outputs) {
      step_buffer b;
      b.declared = v;
      b.root = static_cast<std::uint32_t>(p.buffers.size());
      if (node.fed)
        b.kind = buffer_kind::fed, b.space = program::space_of(p.home);
      else if (node.runs && is_operation<variable_op>(c.op))
        b.kind = buffer_kind::variable, b.space = program::space_of(node.on);
      else if (node.runs && is_operation<constant_op>(c.op))
        b.kind = buffer_kind::constant;
      p.buffers.push_back(b);
    }
  }
  for (std::uint32_t n = 0; n < p.running; ++n) {  // operands precede their readers
    const node_def& c = p.def(n);
    if (c.op->alias || c.op->writes) p.buffers[p.nodes[n].first_buffer].root = p.root_of(c.inputs[0]);
  }
  for (std::uint32_t n = 0; n < p.running; ++n) {
    if (p.def(n).subgraphs.empty()) continue;
    step_buffer b;
    b.declared = {dtype::uint8, {}};  // its size is known when the subgraphs are bound
    b.root = static_cast<std::uint32_t>(p.buffers.size());
    p.nodes[n].workspace = b.root;
    p.buffers.push_back(b);
  }
  for (program::snapshot_reader& s : p.snapshot_readers) {
    step_node& variable = p.nodes[s.variable];
    if (variable.snapshot == none) variable.snapshot = p.add_buffer(variable.first_buffer);
  }
  for (const value& v : p.request.feeds) p.feed_buffers.push_back(p.buffer_of(v));
}

}  // namespace weft::plan

WEFT_COLD_END
