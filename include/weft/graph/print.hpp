// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/graph.hpp>
#include <weft/ops/fused_operations.hpp>

WEFT_COLD_BEGIN
namespace weft {
namespace detail {

/// The shortest decimal text that identifies the number.
inline std::string number_text(double number, bool single) {
  char text[32];
  int digits = 6;
  for (; digits < 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    const double back = std::strtod(text, nullptr);  // both in the program's locale
    if (back == number || (single && static_cast<float>(back) == static_cast<float>(number))) break;
  }
  return format_number("%.*g", digits, number);
}

inline std::string number_text(dtype type, std::uint64_t bits) {
  const std::size_t above = 64 - 8 * size_of(type);
  switch (type) {
    case dtype::boolean:
      return bits ? "true" : "false";
    case dtype::float16:
      return number_text(__builtin_bit_cast(half, static_cast<std::uint16_t>(bits)), true);
    case dtype::bfloat16:
      return number_text(__builtin_bit_cast(bfloat16, static_cast<std::uint16_t>(bits)), true);
    case dtype::float32:
      return number_text(literal_value<float>(bits), true);
    case dtype::float64:
      return number_text(literal_value<double>(bits), false);
    case dtype::int8:
    case dtype::int16:
    case dtype::int32:
    case dtype::int64:
      return str_cat({static_cast<std::int64_t>(bits << above) >> above});
    default:
      return str_cat({bits});
  }
}

inline std::string axes_text(std::int64_t axes) {
  std::string text;
  for (std::size_t i = 0; i < max_rank; ++i)
    if ((axes >> i) & 1) append(text, {text.empty() ? "<" : ", ", i});
  return text.empty() ? text : str_cat({text, ">"});
}

inline std::string expression_text(const fused& f, const node_def& what) {
  std::string constants[device::max_operands], text;
  for (std::size_t i = 0; i < f.signature.constants; ++i)
    constants[i] = number_text(f.signature.constant_types[i], what.literals[i]);
  skeleton::print(f.text, text, constants);
  return text;
}

/// Describes what an operation does to its operands. Two distinct nodes differ in this text, in their operands or in
/// their types.
inline std::string operation_text(const graph_node& n) {
  const node_def& what = n.def;
  const operation* op = what.op;
  if (is_operation<detail::reduction_op>(op)) {
    const auto a = attributes_of<detail::reduction_op>(what);
    return str_cat({reduction_name(a.how, a.mean), axes_text(a.reduced), " ",
                    expression_text(*op->expression(what.detail), what)});
  }
  std::string text = op->name;
  if (op->expression) append(text, {" ", expression_text(*op->expression(what.detail), what)});
  if (is_operation<constant_op>(op) && n.init.data.bytes() == size_of(what.outputs[0].type)) {
    std::uint64_t bits = 0;
    __builtin_memcpy(&bits, n.init.data.data(), n.init.data.bytes());
    append(text, {" ", number_text(what.outputs[0].type, bits)});
  }
  if (is_operation<constant_op>(op)) return text;  // its attributes are its extents, which are printed elsewhere
  if (is_operation<variable_op>(op)) {
    if (kind_of(what) != variable_kind::trained) append(text, {", ", name(kind_of(what))});
    return text;
  }
  if (op->attributes_text) {
    text += op->attributes_text(what);
  } else {
    for (std::size_t i = 0; i < what.attributes.size(); ++i) append(text, {i ? ", " : " {", what.attributes[i]});
    if (!what.attributes.empty()) text += "}";
  }
  for (std::size_t i = 0; !op->expression && i < what.literals.size(); ++i)
    append(text, {" ", number_text(dtype::float64, what.literals[i])});
  return text;
}

inline std::string type_text(const graph& g, const node_def& what) {
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
    if (c == '"' || c == '\\' || c == '\n') text += '\\';
    text += c == '\n' ? 'n' : c;
  }
  return str_cat({text, "\""});
}

}  // namespace detail

namespace detail {

inline void print_value(std::string& text, value v) {
  append(text, {"%", v.node});
  if (v.output) append(text, {".", v.output});
}

inline void print_values(std::string& text, const sequence<value>& values) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (k) text += ", ";
    print_value(text, values[k]);
  }
}

inline void print_nodes(std::string& text, const graph& g, const std::string& indent);

inline void print_subgraph(std::string& text, const subgraph& b, const std::string& indent) {
  append(text, {indent, b.name, "("});
  print_values(text, b.parameters);
  text += "):\n";
  print_nodes(text, b.nodes, indent + "  ");
  append(text, {indent, "  yields "});
  print_values(text, b.results);
  text += "\n";
}

inline void print_nodes(std::string& text, const graph& g, const std::string& indent) {
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const graph_node& n = g[i];
    append(text, {indent, "%", i, " = ", operation_text(n), "("});
    print_values(text, n.def.inputs);
    append(text, {") : ", type_text(g, n.def), "  ", quoted(n.name)});
    for (std::uint32_t c : n.control) append(text, {" after %", c});
    const std::string device = to_string(n.device);
    if (!device.empty()) append(text, {" on ", device});
    text += "\n";
    for (const std::uint32_t b : n.def.subgraphs) print_subgraph(text, g.subgraph_at(b), indent + "  ");
  }
}

}  // namespace detail

/// Returns one line for each node: number, name, operation, operands, type and device. The nodes of its subgraphs
/// follow.
inline std::string to_string(const graph& g) {
  std::string text;
  detail::print_nodes(text, g, "");
  return text;
}

/// Returns the graph in Graphviz's language, for `dot -Tsvg`. Variables are boxes, placeholders are houses, and control
/// edges are dotted.
inline std::string to_graphviz(const graph& g) {
  std::string text = "digraph weft {\n  rankdir=BT;\n  node [shape=ellipse, fontname=\"sans-serif\"];\n";
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const graph_node& n = g[i];
    const char* form = is_operation<variable_op>(n.def.op)      ? ", shape=box"
                       : is_operation<placeholder_op>(n.def.op) ? ", shape=house"
                       : is_operation<constant_op>(n.def.op)    ? ", shape=plaintext"
                                                                : "";
    const bool leaf = is_operation<variable_op>(n.def.op) || is_operation<placeholder_op>(n.def.op);
    const std::string does = leaf ? std::string() : str_cat({detail::operation_text(n), "\n"});
    append(text, {"  n", i, " [label=", detail::quoted(str_cat({n.name, "\n", does, detail::type_text(g, n.def)})),
                  form, "];\n"});
    for (const value& v : n.def.inputs) append(text, {"  n", v.node, " -> n", i, ";\n"});
    for (std::uint32_t c : n.control) append(text, {"  n", c, " -> n", i, " [style=dotted];\n"});
  }
  return str_cat({text, "}\n"});
}

}  // namespace weft

WEFT_COLD_END
