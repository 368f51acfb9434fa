// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/graph/graph.hpp>
#include <weft/graph/variables.hpp>
#include <weft/ops/random/random_position.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Analyzes computations of a graph between its gradients and its updates: clipping, decay, loss scaling. Gradients are
/// the values that the graph has noted (graph::note_gradient). Such computations may depend on gradients, variables and
/// constants, but not on values that differ between workers.
class gradient_processing {
 public:
  explicit gradient_processing(const graph& g) : graph_(g) {}

  /// The inputs of a computation.
  struct sources {
    sequence<value> gradients;
    std::uint32_t own = graph_node::no_node;  // a placeholder, queue or random source that is used other than through a
                                              // gradient
  };
  void add_sources(value of, sources& to) const {
    sequence<char> seen(graph_.size(), 0);
    add_sources(of, to, seen);
  }

  /// Returns the variable whose gradient `v` is, or no_node.
  std::uint32_t variable_of(value v) const {
    for (const noted_gradient& each : graph_.gradients())
      if (each.of == v) return each.variable;
    return graph_node::no_node;
  }
  /// Treats a value as a gradient, because it is exchanged.
  void treat_as_gradient(value v) { others_.push_back(v); }

  /// Returns true if processing commutes with the mean over workers: sums with other values, and products with them.
  bool is_affine(value of) const {
    sequence<char> known(graph_.size(), 0);
    return dependence_of(of, known) != dependence::other;
  }

 private:
  enum class dependence : char { unknown, none, affine, other };  // on gradients

  bool is_gradient(value v) const {
    for (const value& other : others_)
      if (other == v) return true;
    return variable_of(v) != graph_node::no_node;
  }

  bool is_own(std::uint32_t n) const {
    const operation* const op = graph_[n].def.op;
    if (is_operation<random_position_op>(op)) return true;
    return op->stateful && !op->writes && !is_operation<variable_op>(op) && !is_operation<constant_op>(op);
  }

  void add_sources(value of, sources& to, sequence<char>& seen) const {
    sequence<value> pending{of};
    while (!pending.empty()) {
      const value v = pending.back();
      pending.pop_back();
      if (is_gradient(v)) {
        bool is_new = true;
        for (const value& known : to.gradients) is_new &= known != v;
        if (is_new) to.gradients.push_back(v);
        continue;
      }
      if (seen[v.node]) continue;
      seen[v.node] = 1;
      if (is_own(v.node)) {
        to.own = v.node;
        continue;
      }
      for (const value& in : graph_[v.node].def.inputs) pending.push_back(in);
    }
  }

  dependence dependence_of(value v, sequence<char>& known) const {
    if (is_gradient(v)) return dependence::affine;
    if (known[v.node] == 0) known[v.node] = static_cast<char>(dependence_of_inputs(v.node, known));
    return static_cast<dependence>(known[v.node]);
  }
  dependence dependence_of_inputs(std::uint32_t n, sequence<char>& known) const {
    const node_def& def = graph_[n].def;
    sequence<dependence> of;
    bool any = false, all_affine = true;
    for (const value& in : def.inputs) {
      of.push_back(dependence_of(in, known));
      any |= of.back() != dependence::none;
      all_affine &= of.back() != dependence::other;
    }
    if (!any) return dependence::none;
    if (!all_affine) return dependence::other;
    const bool second_is_fixed = of.size() < 2 || of[1] == dependence::none;
    using weft::detail::applies_only, skeleton::formula_id;
    if (of.size() == 1 && (def.op->alias || applies_only(def, formula_id::negate) ||
                           (applies_only(def, formula_id::cast) && is_floating(graph_.info(def.inputs[0]).type) &&
                            is_floating(def.outputs[0].type))))
      return dependence::affine;
    if (def.op->row_sums && second_is_fixed) return dependence::affine;
    if (of.size() != 2) return dependence::other;
    if (applies_only(def, formula_id::add) || applies_only(def, formula_id::subtract)) return dependence::affine;
    if (applies_only(def, formula_id::multiply) && (second_is_fixed || of[0] == dependence::none))
      return dependence::affine;
    return applies_only(def, formula_id::divide) && second_is_fixed ? dependence::affine : dependence::other;
  }

  const graph& graph_;
  sequence<value> others_;
};

}  // namespace weft::detail
WEFT_COLD_END
