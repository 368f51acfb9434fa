#pragma once

#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/graph.hpp>
#include <weft/ops/fused_operations.hpp>

WEFT_COLD_BEGIN
namespace weft {
namespace detail {

inline std::string operation_text(const graph_node& n) {
  const operation* op = n.what.op;
  std::string text = op->name;
  const fused* body = nullptr;
  if (op == &elementwise_operation || op == &elementwise_gradient_operation)
    body = static_cast<const fused*>(n.what.detail);
  if (op == &reduction_operation) {
    body = static_cast<const fused_reduction*>(n.what.detail)->body;
    text = reduction_name(static_cast<device::combine>(n.what.attributes[1]), n.what.attributes[2] != 0);
  }
  return body ? concat({text, " ", skeleton::print(body->text)}) : text;
}

inline std::string type_text(const graph& g, const invocation& what) {
  std::string text;
  for (const value_info& o : what.outputs) {
    if (!text.empty()) text += ", ";
    append(text, {name(o.type), " ", g.to_string(o.extents)});
  }
  return text;
}

inline std::string quoted(const std::string& s) {
  std::string text = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return concat({text, "\""});
}

}  // namespace detail

/// One line for each node: number, name, operation, operands, type, device.
inline std::string to_string(const graph& g) {
  std::string text;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const graph_node& n = g[i];
    append(text, {"%", i, " = ", detail::operation_text(n), "("});
    for (std::size_t k = 0; k < n.what.inputs.size(); ++k) {
      const value v = n.what.inputs[k];
      append(text, {(k ? ", %" : "%"), v.node});
      if (v.output) append(text, {".", v.output});
    }
    append(text, {") : ", detail::type_text(g, n.what), "  \"", n.name, "\""});
    for (std::uint32_t c : n.control) append(text, {" after %", c});
    const std::string device = to_string(n.device);
    if (!device.empty()) append(text, {" on ", device});
    text += "\n";
  }
  return text;
}

/// The graph in Graphviz's language: `dot -Tsvg`. Variables are boxes, placeholders are houses, control edges are
/// dotted.
inline std::string to_graphviz(const graph& g) {
  std::string text = "digraph weft {\n  rankdir=BT;\n  node [shape=ellipse, fontname=\"sans-serif\"];\n";
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const graph_node& n = g[i];
    const char* form = n.what.op == &variable_operation      ? ", shape=box"
                       : n.what.op == &placeholder_operation ? ", shape=house"
                       : n.what.op == &constant_operation    ? ", shape=plaintext"
                                                             : "";
    append(text,
           {"  n", i, " [label=", detail::quoted(concat({n.name, "\n", detail::type_text(g, n.what)})), form, "];\n"});
    for (const value& v : n.what.inputs) append(text, {"  n", v.node, " -> n", i, ";\n"});
    for (std::uint32_t c : n.control)
      append(text, {"  n", c, " -> n", i, " [style=dotted];\n"});
  }
  return concat({text, "}\n"});
}

}  // namespace weft

WEFT_COLD_END
