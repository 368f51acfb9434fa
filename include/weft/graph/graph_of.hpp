// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/graph/graph.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

/// Nodes, expressions over nodes and effects belong to a graph; tensors do not.
template <class X>
struct value_has_no_graph : mistake<true> {};
template <class X>
  requires(std::is_base_of_v<detail::handle, X>)
struct value_has_no_graph<X> : mistake<false> {};
template <Expression Expr>
  requires(!std::is_base_of_v<detail::handle, Expr>)
struct value_has_no_graph<Expr> : mistake<!Expr::symbolic> {};

/// The graph of a symbol, for gradients of operations.
[[nodiscard]] inline graph& graph_of(const symbol& s) {
  if (!s.is_in_a_graph()) detail::refuse_symbol(s);
  return *static_cast<graph*>(s.builder());
}

namespace detail {

/// Finds the graph of the first leaf that has one.
struct graph_of_leaves {
  graph* found = nullptr;

  void add(const handle& n) {
    if (!found) found = &graph_of(n.erased());
  }
  template <class X>
    requires(!std::is_base_of_v<handle, X>)
  void add(const X&) {}
};

}  // namespace detail

/// Returns the graph of a node, an expression or an effect (Tensor.graph in TensorFlow). A function that creates a
/// layer therefore does not need the graph as an argument:
///
///     template <class X>
///     auto dense(const X& x) {
///       graph& g = graph_of(x);
///       const name_scope scope(g, "dense");
///       return relu(matmul(x, variable<float, dims<100, 10>>(g, "weights")));
///     }
///
/// The reference stays valid when the graph moves. Throws failed_precondition if the graph no longer exists.
template <class X>
[[nodiscard]] graph& graph_of(const X& x) {
  static_assert(correct<value_has_no_graph<X>>,
                "graph_of: takes a node, an expression of nodes or an effect; a tensor is not in a graph");
  if constexpr (std::is_base_of_v<detail::handle, X>) {
    return graph_of(x.erased());
  } else if constexpr (correct<value_has_no_graph<X>>) {
    detail::graph_of_leaves leaves;
    detail::add_leaves(x, leaves);
    return *leaves.found;
  } else {
    return detail::no_graph();
  }
}

}  // namespace weft
