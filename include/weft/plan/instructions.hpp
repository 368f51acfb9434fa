// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Lists the instructions: the step's nodes in order, fused nodes as one, and copies of values that are needed after
/// they are overwritten.
inline void list_instructions(program&);

class instruction_list {
 public:
  explicit instruction_list(program& p) : p_(p), kept_(p.nodes.size(), none) {}

  void run() {
    keep_overwritten();
    for (std::uint32_t n = 0; n < p_.running; ++n)
      if (const step_node& v = p_.nodes[n]; v.snapshot != none) copy(n, p_.buffers[v.first_buffer].root, v.snapshot);
    for (std::uint32_t n = 0; n < p_.running; ++n) {
      if (!p_.computes(n)) continue;
      const step_node& node = p_.nodes[n];
      // A fused update runs at its own position, a fused expression at the position of its product.
      const bool late = node.follower != none && p_.op(node.follower).fusion == fusion_kind::descent;
      if (late || (node.leader != none && p_.op(n).fusion != fusion_kind::descent)) continue;
      instruction i;
      i.node = node.follower != none ? node.follower : n;
      i.leader = p_.nodes[i.node].leader;
      i.on = p_.nodes[i.node].on;
      add_reads(i, i.node, i.leader);
      add_writes(i);
      if (i.leader != none) add_reads(i, i.leader, none);
      const std::uint32_t written = i.node;
      p_.instructions.push_back(static_cast<instruction&&>(i));
      if (kept_[written] != none) copy(written, p_.buffers[p_.nodes[written].first_buffer].root, kept_[written]);
    }
    for (const value& f : p_.request.fetches) {
      const std::uint32_t writer = p_.writer_behind(f);
      p_.fetch_buffers.push_back(writer != none && kept_[writer] != none ? kept_[writer] : p_.read_buffer(none, f));
    }
  }

 private:
  /// The result of a write is the variable itself. If the result is fetched and the step overwrites the variable later,
  /// copies it.
  void keep_overwritten() {
    sequence<std::uint32_t> last_writer(p_.buffers.size(), none);
    for (std::uint32_t n = 0; n < p_.running; ++n)
      for (std::size_t i = 0; i < p_.def(n).inputs.size() && program::writes(p_.def(n), i); ++i)
        last_writer[p_.root_of(p_.def(n).inputs[i])] = n;
    for (const value& f : p_.request.fetches) {
      const std::uint32_t writer = p_.writer_behind(f), variable = p_.root_of(f);
      if (writer != none && kept_[writer] == none && last_writer[variable] != writer)
        kept_[writer] = p_.add_buffer(variable);
    }
  }

  void copy(std::uint32_t node, std::uint32_t from, std::uint32_t to) {
    instruction i;
    i.node = node;
    i.kind = instruction_kind::copy;
    i.on = p_.nodes[node].on;
    i.reads = {from};
    i.writes = {to};
    p_.instructions.push_back(static_cast<instruction&&>(i));
  }

  void add_reads(instruction& i, std::uint32_t n, std::uint32_t taken_in) {
    const node_def& c = p_.def(n);
    for (std::size_t k = 0; k < c.inputs.size(); ++k)
      if (program::reads(c, k) && p_.index_of(c.inputs[k]) != taken_in)
        i.reads.push_back(p_.read_buffer(n, c.inputs[k]));
  }

  void add_writes(instruction& i) {
    const node_def& c = p_.def(i.node);
    for (std::size_t k = 0; k < c.inputs.size() && program::writes(c, k); ++k) {
      i.writes.push_back(p_.root_of(c.inputs[k]));
      p_.written_variables.push_back(p_.nodes[p_.variable_behind(c.inputs[k])].number);
    }
    for (std::uint32_t o = c.op->writes ? 1 : 0; o < c.outputs.size(); ++o) {
      const std::uint32_t b = p_.nodes[i.node].first_buffer + o, root = p_.buffers[b].root;
      if (c.op->optional && c.op->optional(c, o) && !is_read(b)) continue;
      if (b == root || !contains(i.writes, root)) i.writes.push_back(root);
    }
    if (p_.nodes[i.node].workspace != none) i.writes.push_back(p_.nodes[i.node].workspace);
  }

  bool is_read(std::uint32_t root) {
    if (is_read_.empty()) {
      is_read_.assign(p_.buffers.size(), 0);
      for (std::uint32_t n = 0; n < p_.running; ++n)
        for (std::size_t k = 0; k < p_.def(n).inputs.size(); ++k)
          if (program::reads(p_.def(n), k)) is_read_[p_.root_of(p_.def(n).inputs[k])] = 1;
      for (const value& f : p_.request.fetches) is_read_[p_.root_of(f)] = 1;
    }
    return is_read_[root] != 0;
  }

  program& p_;
  sequence<char> is_read_;        // for each root buffer; empty until an optional output is checked
  sequence<std::uint32_t> kept_;  // for each fetched result that is overwritten later: the buffer of its copy
};

inline void list_instructions(program& p) { instruction_list(p).run(); }

/// Computes an assigned value directly in the variable's memory, unless the old value is still needed. Excludes
/// integers: a division by zero would leave the variable half written.
inline void assign_in_place(program&);

class in_place_assignment {
 public:
  explicit in_place_assignment(program& p) : p_(p), writer_(p.buffers.size(), none), readers_(p.buffers.size(), 0) {}

  void run() {
    bool any = false;
    for (const instruction& i : p_.instructions) any = any || is_assignment(i);
    if (!any) return;
    sequence<std::uint32_t> last_use(p_.buffers.size(), none);  // for each buffer: an instruction
    for (std::uint32_t i = 0; i < p_.instructions.size(); ++i) {
      const instruction& in = p_.instructions[i];
      if (is_assignment(in)) try_to_omit(i, last_use);
      for (const std::uint32_t b : in.reads) ++readers_[b], last_use[b] = i;
      for (const std::uint32_t b : in.writes) writer_[b] = i, last_use[b] = i;
    }
    confirm();
  }

 private:
  bool is_assignment(const instruction& i) const {
    return i.kind == instruction_kind::compute && p_.op(i.node).fusion == fusion_kind::assignment;
  }

  /// Records an assignment whose value could be computed in place. `confirm` checks for other readers of the value when
  /// all instructions have been seen.
  void try_to_omit(std::uint32_t a, const sequence<std::uint32_t>& last_use) {
    const instruction& assignment = p_.instructions[a];
    const std::uint32_t from = assignment.reads[0], variable = assignment.writes[0], by = writer_[from];
    const step_buffer &value = p_.buffers[from], &target = p_.buffers[variable];
    if (by == none || from != p_.nodes[p_.instructions[by].node].first_buffer || !is_floating(value.declared.type) ||
        !(value.declared.extents == target.declared.extents))
      return;
    const instruction& source = p_.instructions[by];
    if (source.kind != instruction_kind::compute || p_.op(source.node).fusion != fusion_kind::expression ||
        !(source.on == assignment.on))
      return;
    if (last_use[variable] != none && last_use[variable] > by) return;
    if (contains(source.reads, variable) && (source.leader != none || !p_.works_in_place(source.node))) return;
    if (!contains(p_.fetch_buffers, from)) omitted_.push_back({a, by});
  }

  void confirm() {
    sequence<char> gone(p_.instructions.size(), 0);
    for (const pair& o : omitted_) {
      const instruction& assignment = p_.instructions[o.assignment];
      const std::uint32_t from = assignment.reads[0];
      if (readers_[from] != 1) continue;
      instruction& source = p_.instructions[o.source];
      source.writes[0] = assignment.writes[0];
      source.assigned = p_.index_of(p_.def(assignment.node).inputs[0]);
      p_.buffers[from].root = assignment.writes[0];
      gone[o.assignment] = 1;
    }
    sequence<instruction> left;
    left.reserve(p_.instructions.size());
    for (std::size_t i = 0; i < p_.instructions.size(); ++i)
      if (!gone[i]) left.push_back(static_cast<instruction&&>(p_.instructions[i]));
    p_.instructions.swap(left);
  }

  struct pair {
    std::uint32_t assignment, source;
  };

  program& p_;
  sequence<std::uint32_t> writer_, readers_;
  sequence<pair> omitted_;
};

inline void assign_in_place(program& p) { in_place_assignment(p).run(); }

}  // namespace weft::plan

WEFT_COLD_END
