// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>

#include <weft/graph/leaves.hpp>
#include <weft/ops/update.hpp>

/// Access to the variables of a graph by name.
WEFT_COLD_BEGIN
namespace weft {

/// Describes a variable of a graph. Extents may be dynamic; graph::to_string prints their names.
struct variable_description {
  std::string name;
  dtype type;
  shape extents;
  variable_kind kind;
};

/// Returns the variables of a graph in order of creation (tf.global_variables), or those of one kind: `variables(g,
/// variable_kind::trained)` (tf.trainable_variables).
sequence<variable_description> variables(const graph& g);
sequence<variable_description> variables(const graph& g, variable_kind kind);

/// Returns the variable with this name, including scopes: `find_variable<float, dims<784, 100>>(g, "hidden/weights")`.
/// Throws not_found if it does not exist, and invalid_argument if its element type or extents differ.
template <Element T, class D = dims<>>
[[nodiscard]] auto find_variable(graph& g, std::string_view name);

/// The variables of one scope, such as one of several networks in a graph (the var_list of TensorFlow's optimizers,
/// parameters() of a PyTorch module):
///
///     auto online = variables_in(g, "online"), target = variables_in(g, "target");
///     auto train = group(adam{}.minimize(loss, online), assign_all(target, online, {.rate = 0.01}));
///
/// Valid as long as the nodes of the graph.
class variable_list {
 public:
  variable_list() = default;
  variable_list(std::string scope, sequence<symbol> each)
      : scope_(static_cast<std::string&&>(scope)), each_(static_cast<sequence<symbol>&&>(each)) {}

  /// The scope, such as "online"; "" for all variables.
  const std::string& scope() const { return scope_; }
  std::size_t size() const { return each_.size(); }
  /// Returns the names, element types, extents and kinds in order of creation.
  sequence<variable_description> descriptions() const;
  /// Returns the variables in order of creation. Throws failed_precondition if the graph no longer exists.
  const sequence<symbol>& erased() const;

 private:
  std::string scope_;
  sequence<symbol> each_;
};

/// Returns the variables that currently exist in a scope: trained, frozen and averaged ones, without optimizers' slots,
/// counters and local variables; or the variables of one kind. A scope matches whole components: "on" does not match
/// "online", but "online" includes the variables of "online/hidden". "" matches all variables, and a variable's own
/// name matches that variable. Throws not_found, with a list of scopes that have variables, if there is none.
[[nodiscard]] variable_list variables_in(graph& g, std::string_view scope);
[[nodiscard]] variable_list variables_in(graph& g, std::string_view scope, variable_kind kind);

/// Makes trained variables frozen: minimize() and compute_gradients() skip them, as if they had been created with
/// variable_kind::frozen. They are still saved, restored and shared between workers. Call freeze() before recording the
/// training. Call unfreeze() to make them trained again in a training that is recorded later.
///
/// `name` is the name of a variable or of a scope, as in `freeze(g, "encoder")`; "" means the whole graph. Returns the
/// number of variables that changed. Throws not_found if there is no such trained or frozen variable, and
/// failed_precondition if an optimizer updates one of them.
std::size_t freeze(graph& g, std::string_view name);
/// Makes frozen variables trained again: the variable with this name, or all variables in the scope with this name.
/// Returns the number of variables that changed. Throws like freeze().
std::size_t unfreeze(graph& g, std::string_view name);

/// Only variables can be frozen.
template <class X>
struct frozen_value_is_not_a_variable : mistake<true> {};
template <class T, class D, class Dev>
struct frozen_value_is_not_a_variable<variable_node<T, D, Dev>> : mistake<false> {};

/// Freezes the given variables. Throws invalid_argument for a variable that is neither trained nor frozen, and
/// failed_precondition if an optimizer updates one.
template <class First, class... More>
  requires(!std::is_same_v<First, graph> && !std::is_convertible_v<const First&, std::string_view>)
void freeze(const First& first, const More&... more);
/// Makes the given frozen variables trained again.
template <class First, class... More>
  requires(!std::is_same_v<First, graph>)
void unfreeze(const First& first, const More&... more);

namespace detail {

std::size_t set_frozen(graph& g, std::string_view name, bool frozen);
void set_frozen(symbol variable, bool frozen);

/// Returns true if a node is an optimizer's update of a variable, and not a sum of gradients (train/accumulation.hpp).
inline bool is_training_update(const graph& g, std::uint32_t n) {
  return g[n].def.op->update && kind_of(g[update_view(g[n].def).variable().node].def) != variable_kind::local;
}

std::uint32_t find_variable(const graph& g, std::string_view name, const value_info& as);

#if WEFT_DEFINITIONS

WEFT_DECL std::uint32_t find_variable(const graph& g, std::string_view name, const value_info& as) {
  const std::uint32_t n = g.find(name);
  if (n != graph_node::no_node && is_operation<variable_op>(g[n].def.op)) {
    const value_info& there = g[n].def.outputs[0];
    if (there == as) return n;
    throw error(error_code::invalid_argument, g[n].name,
                {"the variable is ", weft::name(there.type), " ", g.to_string(there.extents), ", but is requested as ",
                 weft::name(as.type), " ", g.to_string(as.extents)});
  }
  throw error(error_code::not_found, std::string(name),
              "there is no variable of this name: names include the scopes, as variables(g) lists them");
}

/// Returns true if the name is in the scope or equals it.
inline bool is_in_scope(std::string_view name, std::string_view scope) {
  if (!scope.empty() && scope.back() == '/') scope.remove_suffix(1);
  return scope.empty() || name == scope ||
         (name.size() > scope.size() && name[scope.size()] == '/' && name.substr(0, scope.size()) == scope);
}

inline bool is_of_a_model(variable_kind kind) {
  return kind == variable_kind::trained || kind == variable_kind::frozen || kind == variable_kind::averaged;
}

inline variable_list find_variables(graph& g, std::string_view scope, const variable_kind* kind) {
  sequence<symbol> all, found;
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    if (!is_operation<variable_op>(g[n].def.op)) continue;
    if (!(kind ? kind_of(g[n].def) == *kind : is_of_a_model(kind_of(g[n].def)))) continue;
    all.push_back({&g, {n, 0}});
    if (is_in_scope(g[n].name, scope)) found.push_back(all[all.size() - 1]);
  }
  if (!found.empty()) return {std::string(scope), static_cast<sequence<symbol>&&>(found)};
  sequence<std::string> scopes;
  for (const symbol& v : all) {
    const std::string& name = g[v.id().node].name;
    for (std::size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1)) {
      bool known = false;
      for (const std::string& other : scopes) known = known || other == name.substr(0, end);
      if (!known) scopes.push_back(name.substr(0, end));
    }
  }
  std::string there;
  constexpr std::size_t most = 20;
  for (std::size_t i = 0; i < scopes.size() && i < most; ++i) append(there, {i ? ", " : "", scopes[i]});
  if (scopes.size() > most) append(there, {", and ", scopes.size() - most, " more"});
  const std::string of_kind = kind ? str_cat({"of kind ", weft::name(*kind), " "}) : std::string();
  throw error(error_code::not_found, "variables_in",
              {"there is no variable ", of_kind, "in the scope \"", std::string(scope), "\"; ",
               scopes.empty() ? std::string("no scope has any") : str_cat({"scopes with some: ", there})});
}

/// Returns true if the kind has changed.
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
      frozen ? words_of(variable_op::attributes{to}) : sequence<std::int64_t>();  // the form that record_variable uses
  return true;
}
inline bool may_freeze(const graph& g, std::uint32_t n) {
  const variable_kind kind = kind_of(g[n].def);
  return kind == variable_kind::trained || kind == variable_kind::frozen;
}

WEFT_DECL std::size_t set_frozen(graph& g, std::string_view name, bool frozen) {
  std::size_t found = 0, changed = 0;
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    if (!is_operation<variable_op>(g[n].def.op) || !is_in_scope(g[n].name, name) || !may_freeze(g, n)) continue;
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
                {"the variable ", g[n].name, " is ", weft::name(kind_of(g[n].def)), ", so it is never trained"});
  change_kind(g, n, frozen);
}

#endif

}  // namespace detail

#if WEFT_DEFINITIONS

WEFT_DECL std::size_t freeze(graph& g, std::string_view name) { return detail::set_frozen(g, name, true); }
WEFT_DECL std::size_t unfreeze(graph& g, std::string_view name) { return detail::set_frozen(g, name, false); }

WEFT_DECL variable_list variables_in(graph& g, std::string_view scope) {
  return detail::find_variables(g, scope, nullptr);
}
WEFT_DECL variable_list variables_in(graph& g, std::string_view scope, variable_kind kind) {
  return detail::find_variables(g, scope, &kind);
}

WEFT_DECL const sequence<symbol>& variable_list::erased() const {
  for (const symbol& v : each_)
    if (!v.is_in_a_graph()) detail::refuse_symbol(v);
  return each_;
}
WEFT_DECL sequence<variable_description> variable_list::descriptions() const {
  sequence<variable_description> all;
  for (const symbol& v : erased()) {
    const graph_node& n = (*static_cast<const graph*>(v.builder()))[v.id().node];
    all.push_back({n.name, v.type(), v.extents(), kind_of(n.def)});
  }
  return all;
}

WEFT_DECL sequence<variable_description> variables(const graph& g) {
  sequence<variable_description> found;
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (const node_def& def = g[n].def; is_operation<variable_op>(def.op))
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
  requires(!std::is_same_v<First, graph> && !std::is_convertible_v<const First&, std::string_view>)
void freeze(const First& first, const More&... more) {
  using mistake = first_mistake<frozen_value_is_not_a_variable<First>, frozen_value_is_not_a_variable<More>...>;
  static_assert(correct<mistake>, "freeze: takes variables, one by one, or a graph and a name: freeze(g, \"encoder\")");
  if constexpr (correct<mistake>) {
    detail::set_frozen(first.erased(), true);
    (detail::set_frozen(more.erased(), true), ...);
  }
}
template <class First, class... More>
  requires(!std::is_same_v<First, graph>)
void unfreeze(const First& first, const More&... more) {
  using mistake = first_mistake<frozen_value_is_not_a_variable<First>, frozen_value_is_not_a_variable<More>...>;
  static_assert(correct<mistake>,
                "unfreeze: takes variables, one by one, or a graph and a name: unfreeze(g, \"encoder\")");
  if constexpr (correct<mistake>) {
    detail::set_frozen(first.erased(), false);
    (detail::set_frozen(more.erased(), false), ...);
  }
}

template <Element T, class D>
auto find_variable(graph& g, std::string_view name) {
  graph& all = g.whole();
  return variable_node<T, dims_t<D>>(symbol(&all, {detail::find_variable(all, name, {dtype_of<T>, D::spec}), 0}));
}

}  // namespace weft
WEFT_COLD_END
