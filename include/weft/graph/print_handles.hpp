// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/graph/graph_of.hpp>
#include <weft/graph/print.hpp>
#include <weft/ops/node.hpp>
#include <weft/tensor/print.hpp>

// Text for nodes, variables, placeholders, effects and expressions in a graph: `std::cout << logits`.

namespace weft {
namespace detail {

/// The name of a value's node in quotes, with the output's number unless it is the first output.
std::string name_text(const graph& g, value v);

/// Returns text such as `node<float, [batch, 10]> "logits"`. Variables and placeholders are printed as such, whatever
/// the handle's type is.
std::string node_text(const handle& node, dtype type, const shape& extents, const char* const* names);

/// Returns text such as `expression<float, [batch, 10]>`.
std::string expression_type_text(dtype type, const shape& extents, const char* const* names);

}  // namespace detail

/// Returns the kind, element type, extents and name of a node; for an expression, which has no name, its types.
template <Expression X>
  requires(X::symbolic)
std::string to_string(const X& x) {
  using extents = dims_t<X>;
  if constexpr (X::operations == 0)
    return detail::node_text(x, dtype_of<value_t<X>>, extents::spec, extents::names);
  else
    return detail::expression_type_text(dtype_of<value_t<X>>, extents::spec, extents::names);
}

/// Returns text such as `effect "train"`.
std::string to_string(const effect&);
template <>
inline constexpr bool is_printable<effect> = true;

#if WEFT_DEFINITIONS

WEFT_COLD_BEGIN

namespace detail {

WEFT_DECL std::string name_text(const graph& g, value v) {
  const std::string& name = g[v.node].name;
  return v.output ? quoted(str_cat({name, ":", v.output})) : quoted(name);
}

WEFT_DECL std::string node_text(const handle& node, dtype type, const shape& extents, const char* const* names) {
  const std::string types = str_cat({"<", name(type), ", ", to_string(extents, names), ">"});
  if (!node.is_in_a_graph()) return str_cat({"node", types, node.empty() ? ", empty" : ", its graph no longer exists"});
  const symbol& s = node.erased();
  const graph& g = graph_of(s);
  const operation* const op = g[s.id().node].def.op;
  const char* const kind = is_operation<variable_op>(op)      ? "variable"
                           : is_operation<placeholder_op>(op) ? "placeholder"
                                                              : "node";
  return str_cat({kind, types, " ", name_text(g, s.id())});
}

WEFT_DECL std::string expression_type_text(dtype type, const shape& extents, const char* const* names) {
  return str_cat({"expression<", name(type), ", ", to_string(extents, names), ">"});
}

}  // namespace detail

WEFT_DECL std::string to_string(const effect& e) {
  if (!e.is_in_a_graph()) return e.empty() ? "effect, empty" : "effect, its graph no longer exists";
  const symbol& s = e.erased();
  return str_cat({"effect ", detail::name_text(graph_of(s), s.id())});
}

WEFT_COLD_END

#endif

}  // namespace weft
