#pragma once

#include <string>
#include <string_view>

#include <weft/graph/leaves.hpp>

/// The variables of a graph by their names.
WEFT_COLD_BEGIN
namespace weft {

/// What a graph knows of one of its variables. Extents may be dynamic: graph::to_string prints their names.
struct variable_description {
  std::string name;
  dtype type;
  shape extents;
  variable_kind kind;
};

/// The variables of a graph in the order in which they were made (tf.global_variables), or those of one kind:
/// `variables(g, variable_kind::trained)` (tf.trainable_variables).
sequence<variable_description> variables(const graph& g);
sequence<variable_description> variables(const graph& g, variable_kind kind);

/// The variable of this name, scopes included: `find_variable<float, dims<784, 100>>(g, "hidden/weights")`. Throws
/// not_found if there is none, and invalid_argument if it has another element type or other extents.
template <Element T, class D = dims<>>
[[nodiscard]] auto find_variable(graph& g, std::string_view name);

namespace detail {

std::uint32_t find_variable(const graph& g, std::string_view name, const value_info& as);

#if WEFT_DEFINITIONS

WEFT_DECL std::uint32_t find_variable(const graph& g, std::string_view name, const value_info& as) {
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    if (g[n].def.op != &operation_of<variable_op> || g[n].name != name) continue;
    const value_info& there = g[n].def.outputs[0];
    if (there == as) return n;
    throw error(error_code::invalid_argument, g[n].name,
                {"the variable is ", weft::name(there.type), " ", g.to_string(there.extents), ", and is asked for as ",
                 weft::name(as.type), " ", g.to_string(as.extents)});
  }
  throw error(error_code::not_found, std::string(name),
              "there is no variable of this name: names include the scopes, as variables(g) lists them");
}

#endif

}  // namespace detail

#if WEFT_DEFINITIONS

WEFT_DECL sequence<variable_description> variables(const graph& g) {
  sequence<variable_description> found;
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (const node_def& def = g[n].def; def.op == &operation_of<variable_op>)
      found.push_back({g[n].name, def.outputs[0].type, def.outputs[0].extents, kind_of(def)});
  return found;
}

WEFT_DECL sequence<variable_description> variables(const graph& g, variable_kind kind) {
  sequence<variable_description> found;
  for (variable_description& v : variables(g))
    if (v.kind == kind) found.push_back(static_cast<variable_description&&>(v));
  return found;
}

#endif

template <Element T, class D>
auto find_variable(graph& g, std::string_view name) {
  return variable_node<T, D>(symbol(&g, {detail::find_variable(g, name, {dtype_of<T>, D::spec}), 0}));
}

}  // namespace weft
WEFT_COLD_END
