// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/fused_operations.hpp>
#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Removes copies between elementwise kernels and the arrays that `split` and `concat` divide into equal parts. If only
/// elementwise kernels read the parts of an array, they read them within the array, with strides, and the split has no
/// kernel. If elementwise kernels compute all parts of a joined array, and nothing else reads them, they write them
/// within the array, and the concat has no kernel. For CPUs only.
inline void find_parts(program&);

class part_finder {
 public:
  explicit part_finder(program& p) : p_(p) {}

  void run() {
    bool any = false;
    for (std::uint32_t n = 0; n < p_.running; ++n) any = any || is_split(n) || is_concat(n);
    if (!any) return;
    uses_.assign(p_.buffers.size(), 0), parts_read_.assign(p_.buffers.size(), 0);
    for (const value& f : p_.request.fetches) ++uses_[p_.root_of(f)];
    for (std::uint32_t n = 0; n < p_.running; ++n)
      for (std::size_t k = 0; k < p_.def(n).inputs.size(); ++k) {
        const value v = p_.def(n).inputs[k];
        if (p_.op(n).alias || !program::reads(p_.def(n), k)) continue;
        ++uses_[p_.root_of(v)];
        const std::uint32_t from = p_.index_of(v);
        if (p_.buffer_of(v) == p_.root_of(v) && is_elementwise(n) && p_.nodes[n].on == p_.nodes[from].on)
          ++parts_read_[p_.root_of(v)];
      }
    for (std::uint32_t n = 0; n < p_.running; ++n)
      if (is_split(n))
        read_within(n);
      else if (is_concat(n))
        write_within(n);
  }

 private:
  bool is_split(std::uint32_t n) const { return is_operation<split_op>(p_.def(n).op) && moves_parts(n); }
  bool is_concat(std::uint32_t n) const { return is_operation<concat_op>(p_.def(n).op) && moves_parts(n); }
  bool moves_parts(std::uint32_t n) const {
    return p_.computes(n) && !p_.nodes[n].on.gpu && p_.node_of(n).control.empty() &&
           attributes_of<split_op>(p_.def(n)).count == 1u;
  }
  bool is_elementwise(std::uint32_t n) const {
    const fusion_kind kind = p_.op(n).fusion;
    return p_.computes(n) && (kind == fusion_kind::expression || kind == fusion_kind::gradient);
  }
  /// Returns true if the array consists of `count` such parts, whose extent along the axis is a number, and whose
  /// elements are adjacent: loops do not store single elements apart.
  static bool are_equal_parts(const value_info& array, const value_info& part, std::size_t count, std::size_t axis) {
    const std::int64_t extent = part.extents[axis];
    bool adjacent = false;
    for (std::size_t i = axis; i < part.extents.rank; ++i) adjacent = adjacent || part.extents[i] > 1;
    return count > 1 && extent > 0 && adjacent && array.extents[axis] == extent * static_cast<std::int64_t>(count);
  }
  std::uint32_t axis_of(std::uint32_t n) const {
    return static_cast<std::uint32_t>(attributes_of<split_op>(p_.def(n)).axis);
  }

  void read_within(std::uint32_t n) {
    const node_def& c = p_.def(n);
    const std::uint32_t root = p_.root_of(c.inputs[0]), count = static_cast<std::uint32_t>(c.outputs.size());
    // A variable can be overwritten before its parts are read.
    if (p_.buffers[root].kind == buffer_kind::variable || p_.buffers[root].root != root) return;
    for (std::uint32_t o = 0; o < count; ++o)
      if (const std::uint32_t b = p_.nodes[n].first_buffer + o;
          !are_equal_parts(p_.g.info(c.inputs[0]), c.outputs[o], count, axis_of(n)) || uses_[b] != parts_read_[b])
        return;
    for (std::uint32_t o = 0; o < count; ++o) place(p_.nodes[n].first_buffer + o, root, {o, count, axis_of(n)});
    p_.nodes[n].in_parts = true;
  }

  void write_within(std::uint32_t n) {
    const node_def& c = p_.def(n);
    const std::uint32_t count = static_cast<std::uint32_t>(c.inputs.size());
    for (const value& v : c.inputs) {
      const std::uint32_t from = p_.index_of(v), b = p_.buffer_of(v);
      if (!are_equal_parts(c.outputs[0], p_.g.info(v), count, axis_of(n)) || uses_[b] != 1 || p_.buffers[b].root != b ||
          !is_elementwise(from) || p_.nodes[from].leader != none || !(p_.nodes[from].on == p_.nodes[n].on) ||
          !stores(from, v))
        return;
    }
    for (std::uint32_t k = 0; k < count; ++k)
      place(p_.buffer_of(c.inputs[k]), p_.nodes[n].first_buffer, {k, count, axis_of(n)});
    p_.nodes[n].in_parts = true;
  }
  /// Returns true if a kernel stores each element of its result once. Sums start from cleared memory.
  bool stores(std::uint32_t n, value v) const {
    const node_def& c = p_.def(n);
    if (p_.op(n).fusion == fusion_kind::expression) return true;
    return attributes_of<detail::elementwise_gradient_op>(c).reduced < 0 &&
           p_.g.info(v).extents == p_.g.info(c.inputs.back()).extents;
  }
  void place(std::uint32_t buffer, std::uint32_t root, const operand_part& part) {
    p_.buffers[buffer].root = root;
    p_.buffers[buffer].part = part;
  }

  program& p_;
  // For each buffer: its uses, except by aliases, and how many of them can read a part of an array.
  sequence<std::uint32_t> uses_, parts_read_;
};

inline void find_parts(program& p) { part_finder(p).run(); }

}  // namespace weft::plan

WEFT_COLD_END
