// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/update_view.hpp>
#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Chooses pairs of nodes, `leader` and `follower`, that run as one kernel:
///
/// - a product and the expression that is its only reader; on a CPU, also a node that computes a gradient and the
///   elementwise gradient that is its only reader;
/// - a product that computes a gradient and the gradient-descent update that applies it. The product is then added to
///   the variable and never stored.
inline void fuse(program&);

class fusion {
 public:
  explicit fusion(program& p) : p_(p), uses_(p.buffers.size(), 0) {}

  void run() {
    for (std::uint32_t n = 0; n < p_.running; ++n)
      for (std::size_t k = 0; k < p_.def(n).inputs.size() && !p_.op(n).alias; ++k)
        if (program::reads(p_.def(n), k)) ++uses_[p_.read_buffer(n, p_.def(n).inputs[k])];
    for (const value& f : p_.request.fetches) uses_[p_.root_of(f)] += 2;
    for (std::uint32_t n = 0; n < p_.running; ++n) {
      const std::uint32_t leader = p_.op(n).fusion == fusion_kind::descent ? product_of_update(n) : leader_of(n);
      if (leader == none) continue;
      p_.nodes[n].leader = leader;
      p_.nodes[leader].follower = n;
    }
  }

 private:
  /// Returns the node that an expression or a gradient can follow in place: the node must compute an operand with no
  /// other reader, and all other operands must precede it.
  std::uint32_t leader_of(std::uint32_t n) const {
    const fusion_kind kind = p_.op(n).fusion;
    const bool gradient = kind == fusion_kind::gradient && !p_.nodes[n].on.gpu && p_.works_in_place(n);
    if (kind != fusion_kind::expression && !gradient) return none;
    for (std::size_t k = 0; k < p_.def(n).inputs.size(); ++k) {
      const value in = p_.def(n).inputs[k];
      const std::uint32_t m = p_.index_of(in);
      // If a gradient does not read this operand, its only reader is another node.
      if (!program::reads(p_.def(n), k) || !is_private(in) || p_.nodes[m].follower != none ||
          !(p_.nodes[m].on == p_.nodes[n].on))
        continue;
      if (gradient ? !p_.op(m).takes_gradients : p_.op(m).fusion != fusion_kind::product) continue;
      if (!(p_.g.info(in) == p_.def(n).outputs[0])) continue;
      bool ready = true;
      for (const value& other : p_.def(n).inputs)
        if (!(other == in) && is_computed_after(other, m)) ready = false;
      if (ready) return m;
    }
    return none;
  }

  std::uint32_t product_of_update(std::uint32_t n) const {
    const update_view update(p_.def(n));
    if (update.computes_hyperparameters() || update.row_lists() > 0) return none;
    const value gradient = update.gradient();
    const std::uint32_t m = p_.index_of(gradient);
    const bool possible =
        p_.op(m).adds_to_variables && is_private(gradient) && p_.nodes[m].on == p_.nodes[n].on && !reads_variable(m);
    return possible ? m : none;
  }

  /// Returns true if the step computes the value for a single reader.
  bool is_private(value v) const { return p_.nodes[p_.index_of(v)].runs && uses_[p_.buffer_of(v)] == 1; }
  bool is_computed_after(value v, std::uint32_t than) const {
    const std::uint32_t n = p_.computed_by(v);
    return p_.computes(n) && n > than;
  }
  /// An update runs late, when variables may already have been written.
  bool reads_variable(std::uint32_t n) const {
    for (const value& v : p_.def(n).inputs)
      if (p_.buffers[p_.root_of(v)].kind == buffer_kind::variable) return true;
    return false;
  }

  program& p_;
  sequence<std::uint32_t> uses_;  // for each root buffer; a fetch counts as another reader
};

inline void fuse(program& p) { fusion(p).run(); }

}  // namespace weft::plan

WEFT_COLD_END
