// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/plan/program.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

WEFT_COLD_BEGIN
namespace weft::plan {

/// The operands from which kernels are created; independent of extents. For each node that runs a kernel: the buffers
/// of its operands, and the slots in which the kernel finds them, which may be copies. Inputs precede outputs.
class operand_table {
 public:
  operand_table() = default;
  explicit operand_table(const program& p) : of_(p.running) {
    for (const instruction& i : p.instructions) {
      if (i.kind != instruction_kind::compute) continue;
      add(p, i, i.node);
      if (i.leader != none) add(p, i, i.leader);
      for (const std::uint32_t n : i.beside) add(p, i, n);
    }
  }

  std::size_t inputs(std::uint32_t n) const { return of_[n].inputs; }
  std::size_t count(std::uint32_t n) const { return of_[n].count; }
  const std::uint32_t* slots(std::uint32_t n) const { return slots_.data() + of_[n].first; }
  const std::uint32_t* buffers(std::uint32_t n) const { return buffers_.data() + of_[n].first; }
  /// The places of the operands in their buffers; null if all of them are whole.
  const operand_part* parts(std::uint32_t n) const { return of_[n].in_parts ? parts_.data() + of_[n].first : nullptr; }

 private:
  void add(const program& p, const instruction& i, std::uint32_t n) {
    const node_def& c = p.def(n);
    of_[n] = {static_cast<std::uint32_t>(slots_.size()), static_cast<std::uint32_t>(c.inputs.size()),
              static_cast<std::uint32_t>(c.inputs.size() + c.outputs.size())};
    // A node that follows a product reads the product in its own output.
    const std::uint32_t in_place = n == i.node && p.op(n).fusion != fusion_kind::descent ? i.leader : none;
    for (std::size_t k = 0; k < c.inputs.size(); ++k) {
      const value v = c.inputs[k];
      std::uint32_t b = program::writes(c, k) ? p.root_of(v) : p.read_buffer(n, v);
      for (std::size_t r = 0; r < i.read_for.size() && !program::writes(c, k); ++r)
        if (i.read_for[r] == b) {
          b = i.reads[r];
          break;
        }
      if (in_place != none && p.index_of(v) == in_place) b = p.buffers[p.nodes[n].first_buffer].root;
      slots_.push_back(b);
      buffers_.push_back(p.buffer_of(v));
    }
    for (std::uint32_t k = 0; k < c.outputs.size(); ++k) {
      slots_.push_back(p.buffers[p.nodes[n].first_buffer + k].root);
      buffers_.push_back(p.nodes[n].first_buffer + k);
    }
    for (std::size_t k = of_[n].first; k < buffers_.size(); ++k) {
      parts_.push_back(p.buffers[buffers_[k]].part);
      of_[n].in_parts = of_[n].in_parts || parts_.back().count > 1;
    }
  }

  struct range {
    std::uint32_t first = 0, inputs = 0, count = 0;
    bool in_parts = false;
  };
  sequence<range> of_;
  sequence<operand_part> parts_;
  sequence<std::uint32_t> slots_, buffers_;
};

inline operand_table list_operands(const program& p) { return operand_table(p); }

}  // namespace weft::plan

WEFT_COLD_END

#pragma pop_macro("slots")
