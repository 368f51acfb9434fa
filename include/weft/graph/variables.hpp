#pragma once

#include <string>
#include <string_view>

#include <weft/graph/leaves.hpp>
#include <weft/ops/update.hpp>

/// The variables of a graph by their names.
WEFT_COLD_BEGIN
namespace weft {

/// Describes what a graph knows of one of its variables. Extents may be dynamic: graph::to_string prints their names.
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

/// Makes trained variables frozen: minimize() and compute_gradients() then leave them out, as if they had been made of
/// variable_kind::frozen. They are saved, restored and shared between workers as before. It comes before what trains
/// them is recorded; unfreeze() makes them trained again, for a training that is recorded later.
///
/// By name: the variable of this name, or all in the scope of this name, `freeze(g, "encoder")`; all of the graph by
/// "". Returns how many variables have changed. Throws not_found if no variable that is trained or frozen is there, and
/// failed_precondition if an optimizer updates one.
std::size_t freeze(graph& g, std::string_view name);
std::size_t unfreeze(graph& g, std::string_view name);

/// Only variables are frozen.
template <class X>
struct frozen_value_is_not_a_variable : mistake<true> {};
template <class T, class D, class Dev>
struct frozen_value_is_not_a_variable<variable_node<T, D, Dev>> : mistake<false> {};

/// The same of variables, one by one. Throws invalid_argument for one of another kind.
template <class First, class... More>
requires(!std::is_same_v<First, graph>) void freeze(const First& first, const More&... more);
template <class First, class... More>
requires(!std::is_same_v<First, graph>) void unfreeze(const First& first, const More&... more);

namespace detail {

std::size_t set_frozen(graph& g, std::string_view name, bool frozen);
void set_frozen(symbol variable, bool frozen);

/// Whether a node updates a variable by an optimizer, and not a sum of gradients (train/accumulation.hpp).
inline bool is_training_update(const graph& g, std::uint32_t n) {
  return g[n].def.op->update && kind_of(g[update_view(g[n].def).variable().node].def) != variable_kind::local;
}

std::uint32_t find_variable(const graph& g, std::string_view name, const value_info& as);

#if WEFT_DEFINITIONS

WEFT_DECL std::uint32_t find_variable(const graph& g, std::string_view name, const value_info& as) {
  const std::uint32_t n = g.find(name);
  if (n != graph_node::no_node && g[n].def.op == &operation_of<variable_op>) {
    const value_info& there = g[n].def.outputs[0];
    if (there == as) return n;
    throw error(error_code::invalid_argument, g[n].name,
                {"the variable is ", weft::name(there.type), " ", g.to_string(there.extents), ", and is asked for as ",
                 weft::name(as.type), " ", g.to_string(as.extents)});
  }
  throw error(error_code::not_found, std::string(name),
              "there is no variable of this name: names include the scopes, as variables(g) lists them");
}

/// Returns whether the kind has changed.
inline bool change_kind(graph& g, std::uint32_t variable, bool frozen) {
  const char* const who = frozen ? "freeze" : "unfreeze";
  const variable_kind to = frozen ? variable_kind::frozen : variable_kind::trained;
  if (kind_of(g[variable].def) == to) return false;
  for (const std::uint32_t n : g.optimizer_updates())
    if (update_view(g[n].def).variable().node == variable)
      throw error(error_code::failed_precondition, who,
                  {"the variable ", g[variable].name, " is updated by ", update_view(g[n].def).layout().name,
                   ": freeze it before minimize() or apply_gradients()"});
  g.rewrite(variable).attributes =
      frozen ? words_of(variable_op::attributes{to}) : sequence<std::int64_t>();  // as record_variable has them
  return true;
}
inline bool may_freeze(const graph& g, std::uint32_t n) {
  const variable_kind kind = kind_of(g[n].def);
  return kind == variable_kind::trained || kind == variable_kind::frozen;
}

WEFT_DECL std::size_t set_frozen(graph& g, std::string_view name, bool frozen) {
  std::size_t found = 0, changed = 0;
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    const std::string_view its = g[n].name;
    const bool inside = name.empty() || its == name ||
                        (its.size() > name.size() && its.substr(0, name.size()) == name &&
                         (name.back() == '/' || its[name.size()] == '/'));
    if (g[n].def.op != &operation_of<variable_op> || !inside || !may_freeze(g, n)) continue;
    ++found;
    changed += change_kind(g, n, frozen);
  }
  if (found == 0)
    throw error(error_code::not_found, std::string(name),
                "there is no trained variable of this name or in a scope of this name: variables(g) lists them");
  return changed;
}
WEFT_DECL void set_frozen(symbol variable, bool frozen) {
  graph& g = *static_cast<graph*>(variable.builder());
  const std::uint32_t n = variable.id().node;
  if (!may_freeze(g, n))
    throw error(error_code::invalid_argument, frozen ? "freeze" : "unfreeze",
                {"the variable ", g[n].name, " is ", weft::name(kind_of(g[n].def)), ", and so is never trained"});
  change_kind(g, n, frozen);
}

#endif

}  // namespace detail

#if WEFT_DEFINITIONS

WEFT_DECL std::size_t freeze(graph& g, std::string_view name) { return detail::set_frozen(g, name, true); }
WEFT_DECL std::size_t unfreeze(graph& g, std::string_view name) { return detail::set_frozen(g, name, false); }

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

template <class First, class... More>
requires(!std::is_same_v<First, graph>) void freeze(const First& first, const More&... more) {
  using mistake = first_mistake<frozen_value_is_not_a_variable<First>, frozen_value_is_not_a_variable<More>...>;
  static_assert(correct<mistake>,
                "freeze: it takes variables, one by one, or a graph and a name: freeze(g, \"encoder\")");
  if constexpr (correct<mistake>) {
    detail::set_frozen(first.erased(), true);
    (detail::set_frozen(more.erased(), true), ...);
  }
}
template <class First, class... More>
requires(!std::is_same_v<First, graph>) void unfreeze(const First& first, const More&... more) {
  using mistake = first_mistake<frozen_value_is_not_a_variable<First>, frozen_value_is_not_a_variable<More>...>;
  static_assert(correct<mistake>,
                "unfreeze: it takes variables, one by one, or a graph and a name: unfreeze(g, \"encoder\")");
  if constexpr (correct<mistake>) {
    detail::set_frozen(first.erased(), false);
    (detail::set_frozen(more.erased(), false), ...);
  }
}

template <Element T, class D>
auto find_variable(graph& g, std::string_view name) {
  return variable_node<T, dims_t<D>>(symbol(&g, {detail::find_variable(g, name, {dtype_of<T>, D::spec}), 0}));
}

}  // namespace weft
WEFT_COLD_END
