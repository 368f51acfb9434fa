// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/encoding/protobuf_writer.hpp>
#include <weft/graph/graph.hpp>
#include <weft/graph/print.hpp>
#include <weft/summary/event_writer.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// Returns the graph as a serialized TensorFlow GraphDef, for TensorBoard. Each node has its name, operation, inputs,
/// control dependencies, device, extents and element type. The nodes of a loop's or a branch's subgraphs precede it and
/// have names such as `loop/body/...`.
std::string graph_def(const graph& g);

namespace detail {

/// TensorFlow's DataType.
inline std::int64_t tensorflow_type(dtype type) {
  constexpr std::int64_t numbers[] = {10, 6, 5, 3, 9, 4, 17, 22, 23, 19, 14, 1, 2};
  return numbers[static_cast<std::size_t>(type)];
}

inline const char* tensorflow_operation(const node_def& def) {
  return is_operation<variable_op>(def.op)      ? "VariableV2"
         : is_operation<placeholder_op>(def.op) ? "Placeholder"
         : is_operation<constant_op>(def.op)    ? "Const"
         : is_operation<identity_op>(def.op)    ? "Identity"
         : is_operation<group_op>(def.op)       ? "NoOp"
                                                : def.op->name;
}

inline data::protobuf_writer shape_message(const graph& g, const shape& s) {
  data::protobuf_writer all;
  for (std::size_t i = 0; i < s.rank; ++i) {
    data::protobuf_writer extent;
    extent.add_integer(1, s[i] < 0 ? -1 : s[i]);
    if (s[i] < 0) extent.add_text(2, g.extent_name(s[i]));
    all.add_message(2, extent);
  }
  return all;
}

inline void add_nodes(data::protobuf_writer& to, const graph& g, const std::string& prefix) {
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const graph_node& n = g[i];
    const std::string name = prefix + n.name;
    for (const std::uint32_t b : n.def.subgraphs)
      add_nodes(to, g.subgraph_at(b).nodes, str_cat({name, "/", g.subgraph_at(b).name, "/"}));

    data::protobuf_writer message, type, text, shapes, list;
    message.add_text(1, name);
    message.add_text(2, tensorflow_operation(n.def));
    for (const value& v : n.def.inputs)
      message.add_text(3, v.output ? str_cat({prefix, g[v.node].name, ":", v.output}) : prefix + g[v.node].name);
    for (const std::uint32_t c : n.control) message.add_text(3, str_cat({"^", prefix, g[c].name}));
    for (const std::uint32_t b : n.def.subgraphs)
      for (const value& v : g.subgraph_at(b).results)
        message.add_text(3, str_cat({"^", name, "/", g.subgraph_at(b).name, "/", g.subgraph_at(b).nodes[v.node].name}));
    message.add_text(4, to_string(n.device));
    if (!n.def.outputs.empty()) {
      type.add_integer(6, tensorflow_type(n.def.outputs[0].type));
      message.add_entry(5, "dtype", type);
    }
    text.add_text(2, operation_text(n));
    message.add_entry(5, "operation", text);
    for (const value_info& o : n.def.outputs) list.add_message(7, shape_message(g, o.extents));
    shapes.add_message(1, list);
    message.add_entry(5, "_output_shapes", shapes);
    to.add_message(1, message);
  }
}

}  // namespace detail

inline std::string graph_def(const graph& g) {
  constexpr std::int64_t producer = 22;  // of TensorFlow 1.0
  data::protobuf_writer all, versions;
  detail::add_nodes(all, g, "");
  versions.add_integer(1, producer);
  all.add_message(4, versions);
  return all.bytes();
}

inline void event_writer::add_graph(const graph& g) { add_message(detail::event_field::graph_def, graph_def(g), 0); }

}  // namespace weft
WEFT_COLD_END
