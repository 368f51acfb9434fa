// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/effects.hpp>
#include <weft/graph/gradients.hpp>
#include <weft/graph/graph_of.hpp>
#include <weft/graph/variables.hpp>
#include <weft/ops/optimizer_traits.hpp>
#include <weft/ops/update_view.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/train/variable_gradient.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// Records a training step as nodes of a graph, without types: gradients, slots and updates.
WEFT_COLD_BEGIN
namespace weft {
namespace detail {

/// An optimizer, without its type.
struct update_definition {
  const char* name;
  const slot* slots;
  std::size_t slot_count;
  const hyperparameter* hyperparameters;
  std::size_t hyperparameter_count;
  bool by_rows;
  const void* optimizer;
  std::size_t norm_count;
  /// Records the norms. `operands` are the variable, its slots and the gradient.
  void (*norms)(const void* optimizer, const symbol* operands, symbol* norms);
};

/// One variable's part of a training step.
struct applied_gradient {
  variable_gradient<symbol, symbol> pair;
  const operation* update;
};

/// Appends the trained variables of a list that have the loss's type. They are marked with output 1, which variables do
/// not have: the loss need not depend on each of them. Throws invalid_argument if the list has none.
void append_listed(sequence<symbol>& named, const variable_list& list, dtype of_loss, const char* who);
/// Records the gradients of the given variables or, if none is given, of all trained variables that the loss depends
/// on.
sequence<variable_gradient<symbol, symbol>> record_gradients(graph&, symbol loss, const char* who,
                                                             sequence<symbol> variables);
symbol record_sum_of_squares(symbol);
/// Returns true, and the lists of rows with their indices, if the gradient is a sum of rows only and has few enough
/// lists.
bool find_rows(const graph&, value gradient, sequence<value>& lists, const operation*& sums);
/// Returns an equal value that is computed from dense gradients, according to reverse mode or note_whole(). Returns the
/// value itself if it is not computed from sparse gradients.
symbol without_rows(symbol);
/// Records the update of a variable, and its slots.
symbol record_update(graph&, const update_definition&, const applied_gradient&);
/// Throws invalid_argument unless each variable is trained and occurs once.
void check_trained(const graph&, const char* who, const sequence<symbol>& variables);
/// Appends a symbol unless it is a number or already in the list.
void append_once(sequence<symbol>& all, symbol one);
/// Appends the updates that were noted for these losses.
void append_noted(graph&, const sequence<symbol>& losses, sequence<symbol>& members);
/// `beside`: effects that every step also runs.
effect record_updates(graph&, const update_definition&, const sequence<applied_gradient>&,
                      const sequence<symbol>& beside);
/// Throws invalid_argument unless the variable is a counter.
symbol check_counter(const char* who, symbol);

#if WEFT_DEFINITIONS

inline bool is_trained(const graph& g, std::uint32_t n) {
  return is_operation<variable_op>(g[n].def.op) && kind_of(g[n].def) == variable_kind::trained;
}

/// Adds a variable for an optimizer's state next to another variable (a slot in TensorFlow).
inline value add_slot(graph& g, symbol variable, const slot& s) {
  if (!s.first.is_number())
    throw error(error_code::invalid_argument, s.name,
                "the initial value of a slot must be a number, not a hyperparameter computed in the graph");
  node_def c;
  c.op = &operation_of<variable_op>;
  c.outputs = {s.scalar ? value_info{variable.type(), shape()} : variable.info()};
  c.attributes = words_of(variable_op::attributes{variable_kind::slot});
  // The variable and the slot must be on the same device, because an update writes both.
  const graph::device_scope beside(g, variable.id());
  const std::uint32_t node = g.add(static_cast<node_def&&>(c), str_cat({g[variable.id().node].name, "/", s.name}));
  g.initialize(node, {initializer::kind_type::constant, s.first.number(), 0, {}});
  return {node, 0};
}

WEFT_DECL bool find_rows(const graph& g, value gradient, sequence<value>& lists, const operation*& sums) {
  const node_def& c = g[gradient.node].def;
  if (c.op->row_sums && c.attributes[0] == 0) {
    sums = c.op->row_sums;
    lists.append(c.inputs.data(), 2);
    return lists.size() <= 2 * max_row_lists;
  }
  return applies_only(c, skeleton::formula_id::add) && g.info(c.inputs[0]) == g.info(gradient) &&
         g.info(c.inputs[1]) == g.info(gradient) && find_rows(g, c.inputs[0], lists, sums) &&
         find_rows(g, c.inputs[1], lists, sums);
}

/// `seen`: by node, true if the node is known not to be computed from sparse gradients.
inline value find_without_rows(graph& g, value v, sequence<char>& seen) {
  if (const value known = g.whole_of(v); known != v) return known;
  if (seen[v.node]) return v;
  for (const noted_gradient& each : g.gradients())
    if (each.of == v) return v;
  node_def c = g[v.node].def;
  if (c.op->stateful || c.inputs.empty()) return v;
  bool differs = false;
  for (value& in : c.inputs) {
    const value instead = find_without_rows(g, in, seen);
    differs |= instead != in;
    in = instead;
  }
  if (!differs) {
    seen[v.node] = 1;
    return v;
  }
  const value made{g.record(static_cast<node_def&&>(c)).id().node, v.output};
  g.note_whole(v, made);
  return made;
}
WEFT_DECL symbol without_rows(symbol x) {
  graph& g = graph_of(x);
  if (g.whole_twins().empty()) return x;
  sequence<char> seen(g.size(), 0);
  return {&g, find_without_rows(g, x.id(), seen)};
}

/// Returns an update's node without its gradient. Sets the bits of `computed` for hyperparameters that are inputs.
inline node_def update_without_gradient(graph& g, const update_definition& how, const operation* op, symbol variable,
                                        symbol gradient, std::uint32_t& computed) {
  node_def c;
  c.op = op;
  c.inputs = {variable.id()};
  for (std::size_t k = 0; k < how.slot_count; ++k) c.inputs.push_back(add_slot(g, variable, how.slots[k]));
  for (std::size_t k = 0; k < how.hyperparameter_count; ++k) {
    const hyperparameter& h = how.hyperparameters[k];
    c.literals.push_back(literal_bits(h.is_number() ? h.number() : 0));
    if (h.is_number()) continue;
    if (h.node().builder() != &g.self())
      throw error(error_code::invalid_argument, how.name, "a hyperparameter belongs to another graph");
    computed |= 1u << k;
    c.inputs.push_back(h.node().id());
  }
  symbol operands[max_slots + 2] = {variable}, norms[max_hyperparameters];
  for (std::size_t k = 0; k < how.slot_count; ++k) operands[1 + k] = symbol(&g, c.inputs[1 + k]);
  operands[1 + how.slot_count] = gradient;
  if (how.norms) how.norms(how.optimizer, operands, norms);
  for (std::size_t k = 0; k < how.norm_count; ++k) {
    c.literals.push_back(0);
    computed |= 1u << (how.hyperparameter_count + k);
    c.inputs.push_back(norms[k].id());
  }
  c.outputs = {variable.info()};
  return c;
}

WEFT_DECL symbol record_update(graph& g, const update_definition& how, const applied_gradient& of) {
  const symbol variable = of.pair.variable, gradient = of.pair.gradient;
  const graph::device_scope beside(g, place_of_variable{g[variable.id().node].device});
  std::uint32_t computed = 0;
  node_def c = update_without_gradient(g, how, of.update, variable, gradient, computed);
  sequence<value> lists;
  const operation* sums = nullptr;
  const bool by_rows = how.by_rows && find_rows(g, gradient.id(), lists, sums);
  // The same update for a gradient that a cluster has summed and feeds. Steps do not run it otherwise.
  node_def summed = c;
  bool differs = by_rows;
  for (std::size_t k = 1 + how.slot_count; k < c.inputs.size(); ++k) {
    summed.inputs[k] = without_rows({&g, c.inputs[k]}).id();
    differs |= summed.inputs[k] != c.inputs[k];
  }
  summed.inputs.push_back(without_rows(gradient).id());
  differs |= summed.inputs.back() != gradient.id();
  if (differs) {
    if (by_rows) {
      node_def touched;
      touched.op = &operation_of<placeholder_op>;
      touched.outputs = {{dtype::int64, shape(variable.extents()[0])}};
      summed.inputs.push_back({g.add(static_cast<node_def&&>(touched), g[variable.id().node].name + "/touched"), 0});
    }
    summed.attributes = words_of(update_attributes{computed, by_rows ? 1u : 0u, true});
    g.add(static_cast<node_def&&>(summed), g[variable.id().node].name + "/summed");
  }
  if (!by_rows) {
    c.inputs.push_back(gradient.id());
    c.attributes = words_of(update_attributes{computed, 0, false});
    return g.record(static_cast<node_def&&>(c));
  }

  node_def by_number;
  by_number.op = sums;
  by_number.inputs = {variable.id()};
  by_number.inputs.append(lists.data(), lists.size());
  for (std::size_t k = 0; k < lists.size(); ++k)
    by_number.outputs.push_back(k % 2 == 0 ? g.info(lists[k]) : value_info{dtype::int64, g.info(lists[k]).extents});
  const std::uint32_t node = g.record(static_cast<node_def&&>(by_number)).id().node;
  for (std::uint32_t k = 0; k < lists.size(); ++k) c.inputs.push_back({node, k});
  c.attributes = words_of(update_attributes{computed, lists.size() / 2, false});
  return g.record(static_cast<node_def&&>(c));
}

WEFT_DECL void check_trained(const graph& g, const char* who, const sequence<symbol>& variables) {
  for (const symbol& v : variables)
    if (!is_trained(g, v.id().node))
      throw error(error_code::invalid_argument, who,
                  {"the variable ", g[v.id().node].name, " is ", weft::name(kind_of(g[v.id().node].def)),
                   ": minimize() updates only trained variables"});
  for (std::size_t i = 0; i < variables.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (variables[i].id() == variables[j].id() && variables[i].id().output == 0)
        throw error(error_code::invalid_argument, who,
                    {"the variable ", g[variables[i].id().node].name, " is listed twice"});
}

WEFT_DECL void append_listed(sequence<symbol>& named, const variable_list& list, dtype of_loss, const char* who) {
  const std::size_t before = named.size();
  for (const symbol& v : list.erased())
    if (is_trained(graph_of(v), v.id().node) && v.type() == of_loss) named.push_back(v.output(1));
  if (named.size() == before)
    throw error(error_code::invalid_argument, who,
                {"the list has no trained variable of the loss's type ", weft::name(of_loss), ": ",
                 list.size() == 0 ? std::string("it is empty; variables_in(g, scope) returns the variables of a scope")
                                  : str_cat({"its scope is \"", list.scope(), "\""})});
}

WEFT_DECL sequence<variable_gradient<symbol, symbol>> record_gradients(graph& g, symbol loss, const char* who,
                                                                       sequence<symbol> variables) {
  const bool all = variables.empty();
  for (std::uint32_t n = 0; all && n < g.size(); ++n)
    if (is_trained(g, n) && g[n].def.outputs[0].type == loss.type()) variables.push_back({&g, {n, 0}});
  if (!all) check_trained(g, who, variables);
  sequence<symbol> each;
  for (const symbol& v : variables) {
    check_same_graph(who, &g, v);
    all ? each.push_back(v) : append_once(each, v.output(0));
  }
  const auto found = g.differentiate({loss}, {as_scalar(g, 1, loss.type())}, each);
  sequence<variable_gradient<symbol, symbol>> pairs;
  for (std::size_t i = 0; i < each.size(); ++i)
    if (!found[i].is_number()) pairs.push_back({found[i], each[i], loss});
  for (const symbol& v : variables) {
    if (all || v.id().output == 1) continue;
    bool has_gradient = false;
    for (const auto& pair : pairs) has_gradient |= pair.variable.id() == v.id();
    if (!has_gradient)
      throw error(error_code::invalid_argument, who,
                  {"the loss does not depend on the variable ", g[v.id().node].name});
  }
  for (std::uint32_t n = 0; pairs.empty() && all && n < g.size(); ++n)
    if (is_trained(g, n) && g[n].def.outputs[0].type != loss.type())
      throw error(error_code::invalid_argument, who,
                  {"the loss is ", weft::name(loss.type()), ", but depends on no variable of that type: ", g[n].name,
                   " is ", weft::name(g[n].def.outputs[0].type), "; cast the loss to the variables' type"});
  if (pairs.empty())
    throw error(error_code::invalid_argument, who,
                {"the loss depends on no variable", all ? "" : " of the list, whose first variable is ",
                 all ? "" : g[variables[0].id().node].name.c_str()});
  return pairs;
}

WEFT_DECL symbol record_sum_of_squares(symbol x) { return sum(x * x); }

WEFT_DECL symbol check_counter(const char* who, symbol variable) {
  const graph_node& n = (*static_cast<const graph*>(variable.builder()))[variable.id().node];
  if (kind_of(n.def) != variable_kind::counter)
    throw error(error_code::invalid_argument, who,
                {"the variable ", n.name, " is ", weft::name(kind_of(n.def)),
                 ", but a step counter must be one made by global_step(g)"});
  return variable;
}

WEFT_DECL void append_once(sequence<symbol>& all, symbol one) {
  bool seen = one.is_number();
  for (const symbol& other : all) seen |= other.id() == one.id();
  if (!seen) all.push_back(one);
}
WEFT_DECL void append_noted(graph& g, const sequence<symbol>& losses, sequence<symbol>& members) {
  for (const symbol& loss : losses)
    for (const symbol& noted : updates_beside(g, loss)) append_once(members, noted);
}

WEFT_DECL void check_limits(const char* optimizer, const hyperparameter* given, const hyperparameter_limit* limits,
                            std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!given[i].is_number()) continue;
    const double x = given[i].number();
    const hyperparameter_range range = limits[i].range;
    const bool is_within = range == hyperparameter_range::below_one   ? x < 1
                           : range == hyperparameter_range::up_to_one ? x <= 1
                                                                      : x < __builtin_inf();
    if (x >= 0 && is_within) continue;
    throw error(error_code::invalid_argument, optimizer,
                {limits[i].name, " must be ",
                 range == hyperparameter_range::below_one   ? "at least 0 and less than 1"
                 : range == hyperparameter_range::up_to_one ? "from 0 to 1"
                                                            : "a finite number of at least 0",
                 "; it is ", format_number("%.*g", 9, x)});
  }
}

WEFT_DECL effect record_updates(graph& g, const update_definition& how, const sequence<applied_gradient>& all,
                                const sequence<symbol>& beside) {
  sequence<symbol> variables, losses, members = beside;
  for (const applied_gradient& each : all) {
    const auto& [gradient, variable, loss, also] = each.pair;
    check_same_graph("apply_gradients", &g, variable);
    if (gradient.is_number())
      throw error(error_code::invalid_argument, how.name,
                  {"the gradient of ", g[variable.id().node].name,
                   " must have the variable's extents, but is a number: use an expression of the gradient"});
    check_same_graph("apply_gradients", &g, gradient);
    if (!(gradient.info() == variable.info()))
      throw error(error_code::invalid_argument, how.name,
                  {"the gradient of ", g[variable.id().node].name, " is ", weft::name(gradient.type()), " of extents ",
                   to_string(gradient.extents()), ", but must match the variable, ", weft::name(variable.type()),
                   " of ", to_string(variable.extents())});
    variables.push_back(variable);
    append_once(losses, loss);
    append_once(members, also);
  }
  check_trained(g, how.name, variables);
  for (const applied_gradient& each : all) members.push_back(record_update(g, how, each));
  append_noted(g, losses, members);
  return record_group(g, members, how.name);
}

#endif

}  // namespace detail

}  // namespace weft
WEFT_COLD_END

#pragma pop_macro("slots")
