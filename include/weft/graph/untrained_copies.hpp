// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/graph/scopes.hpp>
#include <weft/ops/update_view.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft::detail {

WEFT_DECL std::string untrained_copies(const graph& g, const sequence<std::uint32_t>& read, bool only_new) {
  std::string text;
  if (g.numbered_scopes().empty() || g.optimizer_updates().empty()) return text;
  const auto is_updated = [&](std::uint32_t variable) {
    for (const std::uint32_t n : g.optimizer_updates())
      if (update_view(g[n].def).variable().node == variable) return true;
    return false;
  };
  const auto is_written = [&](std::uint32_t variable) {
    for (std::uint32_t n = variable; n < g.size(); ++n)
      if (g[n].def.op->writes && g[n].def.inputs[0].node == variable) return true;
    return false;
  };
  const auto is_read = [&](std::uint32_t variable) {
    for (const std::uint32_t n : read)
      if (n == variable) return true;
    return false;
  };
  for (numbered_scope& each : g.numbered_scopes())
    for (const std::uint32_t n : read) {
      const std::string& name = g[n].name;
      if (kind_of(g[n].def) != variable_kind::trained || name.compare(0, each.scope.size(), each.scope) != 0) continue;
      const std::uint32_t first = g.find(each.first + name.substr(each.scope.size()));
      // A layer in a stack also reads the layers below; a copy of a model does not read the original.
      if (first == graph_node::no_node || !is_operation<variable_op>(g[first].def.op) ||
          !(g[first].def.outputs[0] == g[n].def.outputs[0]) || is_read(first) || !is_updated(first) || is_written(n))
        continue;
      // Atomic, because threads can prepare steps at the same time.
      if (only_new && __atomic_exchange_n(&each.is_reported, true, __ATOMIC_RELAXED)) break;
      append(text, {"a step reads ", name, ", which no optimizer updates, instead of ", g[first].name,
                    ", which an optimizer updates: a model that is called twice in a name_scope has two sets of "
                    "variables; to share one set, use variable_scope(graph, \"",
                    std::string(each.first, 0, each.first.size() - 1), "\", reuse::automatic)\n"});
      break;
    }
  return text;
}

}  // namespace weft::detail
WEFT_COLD_END
#endif
