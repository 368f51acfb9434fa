// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/random/random_position.hpp>
#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Finds the nodes that a step needs for its fetches, given its feeds. Numbers them in the order of the graph, which is
/// not the execution order. The session feeds the random position. Throws invalid_argument if a required placeholder is
/// not fed, or if a value is fed twice.
inline void prune(program& p) {
  const graph& g = p.g;
  p.index.assign(g.size(), none);
  sequence<std::uint32_t> pending;
  sequence<char> state(g.size(), 0);
  enum : char { unknown, mentioned, fed, needed };
  const auto mention = [&](std::uint32_t n) {  // and the nodes that it is an alias of
    for (; state[n] == unknown; n = g[n].def.inputs[0].node) {
      state[n] = mentioned;
      if (!g[n].def.op->alias) break;
    }
  };
  const auto need = [&](std::uint32_t n) {
    if (state[n] == needed || state[n] == fed) return;
    if (is_operation<random_position_op>(g[n].def.op)) {
      state[n] = fed;
      p.positions.push_back(n);
      return;
    }
    state[n] = needed;
    pending.push_back(n);
  };
  const auto need_value = [&](value v) {
    if (state[v.node] != fed || g[v.node].def.outputs.size() == 1) return need(v.node);
    for (const value& f : p.request.feeds)
      if (f == v) return;
    throw error(error_code::unimplemented, g[v.node].name,
                "one of its outputs is fed and another one is needed: feed all outputs that the step needs");
  };
  for (std::size_t i = 0; i < p.request.feeds.size(); ++i) {
    const value v = p.request.feeds[i];
    for (std::size_t j = 0; j < i; ++j)
      if (v == p.request.feeds[j])
        throw error(error_code::invalid_argument, g[v.node].name, "is fed twice: feed each node once");
    state[v.node] = fed;
  }
  for (const value& v : p.request.fetches) need_value(v);
  for (const std::uint32_t n : p.request.targets) need(n);
  while (!pending.empty()) {
    const graph_node& node = g[pending.back()];
    pending.pop_back();
    if (is_operation<placeholder_op>(node.def.op))
      throw error(error_code::invalid_argument, node.name,
                  {"the placeholder of ", name(node.def.outputs[0].type), " ", g.to_string(node.def.outputs[0].extents),
                   " is needed but not fed: add it to feed() or with()"});
    for (std::size_t i = 0; i < node.def.inputs.size(); ++i)
      if (program::reads(node.def, i) || program::writes(node.def, i))
        need_value(node.def.inputs[i]);
      else
        mention(node.def.inputs[i].node);
    for (const std::uint32_t c : node.control) need(c);
  }
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    if (state[n] == unknown) continue;
    step_node node;
    node.number = n;
    node.runs = state[n] == needed;
    node.fed = state[n] == fed;
    p.index[n] = static_cast<std::uint32_t>(p.nodes.size());
    p.nodes.push_back(node);
  }
}

}  // namespace weft::plan

WEFT_COLD_END
