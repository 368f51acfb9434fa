#pragma once

#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/gradients.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/ops/state.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// What is minimised is one number: `mean(...)` or `sum(...)` makes one of many.
template <class Dims>
struct minimized_value_is_not_scalar : mistake<Dims::rank != 0> {};

/// What is minimised is a value of a graph.
template <class X>
struct minimized_value_is_not_a_node : mistake<!Expression<X>> {};

/// What is trained are variables, one argument each, of the loss's element type.
template <class X, class T>
struct trained_value_is_not_a_variable : mistake<true> {};
template <class T, class D, class Dev>
struct trained_value_is_not_a_variable<variable_node<T, D, Dev>, T> : mistake<false> {};

namespace detail {

template <class Expr, class... V>
constexpr auto find_minimize_mistake() {
  if constexpr (!Expression<Expr>)
    return minimized_value_is_not_a_node<Expr>{};
  else
    return first_mistake<minimized_value_is_not_scalar<dims_t<Expr>>, gradient_root_mistake<Expr>,
                         trained_value_is_not_a_variable<V, value_t<Expr>>...>{};
}

}  // namespace detail

/// What is wrong with a loss, and the variables that are named with it, if anything is.
template <class Expr, class... Variables>
using minimize_mistake = decltype(detail::find_minimize_mistake<Expr, Variables...>());

namespace detail {

/// A node that runs others for their effect.
effect group(graph&, const sequence<symbol>& members, const std::string& name);

/// One update of one variable. Slots are variables of the optimizer's own beside it.
struct update_rule_call {
  const operation* op;
  sequence<const char*> slots;
  sequence<std::uint64_t> literals;
};

effect record_minimize(graph&, symbol loss, const char* name, const update_rule_call&, sequence<symbol> variables);

#if WEFT_BODIES

WEFT_DECL effect group(graph& g, const sequence<symbol>& members, const std::string& name) {
  node_def c;
  c.op = &group_operation;
  c.outputs = {{dtype::boolean, shape(0)}};
  const std::uint32_t node = g.add(static_cast<node_def&&>(c), name);
  for (const symbol& m : members) g.add_control(node, m.id().node);
  return effect(symbol(&g, {node, 0}));
}

/// A zero-initialised variable beside another, where an optimizer keeps what it remembers (a slot in TensorFlow).
inline symbol slot(graph& g, symbol variable, const char* name) {
  const graph::device_scope beside(g, g[variable.id().node].device);
  node_def c;
  c.op = &variable_operation;
  c.outputs = {variable.info()};
  const std::uint32_t node = g.add(static_cast<node_def&&>(c), str_cat({g[variable.id().node].name, "/", name}));
  g.initialize(node, {initializer::kind_type::constant, 0, 0, {}});
  return {&g, {node, 0}};
}

inline symbol record_update(graph& g, const update_rule_call& rule, symbol variable, symbol gradient) {
  const graph::device_scope beside(g, g[variable.id().node].device);
  node_def c;
  c.op = rule.op;
  c.inputs = {variable.id()};
  for (const char* name : rule.slots) c.inputs.push_back(slot(g, variable, name).id());
  c.inputs.push_back(gradient.id());
  c.outputs = {variable.info()};
  c.literals = rule.literals;
  return g.record(static_cast<node_def&&>(c));
}

WEFT_DECL effect record_minimize(graph& g, symbol loss, const char* name, const update_rule_call& rule,
                                 sequence<symbol> variables) {
  const bool all = variables.empty();
  for (std::uint32_t n = 0; all && n < g.size(); ++n)
    if (g[n].def.op == &variable_operation && g[n].def.outputs[0].type == loss.type())
      variables.push_back({&g, {n, 0}});
  for (std::size_t i = 0; i < variables.size(); ++i)
    for (std::size_t j = 0; j < i && !all; ++j)
      if (variables[i].id() == variables[j].id())
        throw error(error_code::invalid_argument, name,
                    {"the variable ", g[variables[i].id().node].name, " is named twice, and would be updated twice"});
  const auto found = g.differentiate({loss}, {as_scalar(g, 1, loss.type())}, variables);
  sequence<symbol> updates;
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (!found[i].is_number())
      updates.push_back(record_update(g, rule, variables[i], found[i]));
    else if (!all)
      throw error(error_code::invalid_argument, name,
                  {"the loss does not depend on the variable ", g[variables[i].id().node].name});
  for (std::uint32_t n = 0; updates.empty() && n < g.size(); ++n)
    if (g[n].def.op == &variable_operation && g[n].def.outputs[0].type != loss.type())
      throw error(error_code::invalid_argument, name,
                  {"the loss is ", weft::name(loss.type()), " and depends on no variable of that type, ", g[n].name,
                   " is ", weft::name(g[n].def.outputs[0].type), ": cast the loss to the variables' type"});
  if (updates.empty()) throw error(error_code::invalid_argument, name, "the loss depends on no variable");
  return group(g, updates, name);
}

#endif

/// Differentiates the loss with respect to the given variables, or to every variable of its type that it depends on,
/// and records their updates.
template <class Family, class Expr>
effect minimize(const Expr& loss, const char* name, const update_rule_call& rule, const sequence<symbol>& variables) {
  gpu::compile_family<Family, value_t<Expr>>();
  const auto root = let(loss);
  auto& g = *static_cast<graph*>(root.erased().builder());
  use_gradient_primitives<value_t<Expr>>(g);
  return record_minimize(g, root.erased(), name, rule, variables);
}

}  // namespace detail

/// variable -= learning_rate * gradient (tf.train.GradientDescentOptimizer).
struct gradient_descent {
  double learning_rate = 0.01;

  /// A training step: updates every variable that the scalar loss depends on, or those that are named alone. Throws
  /// invalid_argument if the loss does not depend on one of them.
  template <class Expr, class... V>
  [[nodiscard]] effect minimize(const Expr& loss, const V&... variables) const {
    using mistake = minimize_mistake<Expr, V...>;
    static_assert(correct<mistake>,
                  "minimize: the loss must be a float or double scalar in a graph, use mean() or sum(); variables of "
                  "its type may follow it, one by one");
    if constexpr (correct<mistake>)
      return detail::minimize<gpu::gradient_descents>(
          loss, "gradient_descent",
          {&gradient_descent_operation<value_t<Expr>>, {}, {detail::literal_bits(learning_rate)}},
          {variables.erased()...});
    else
      return effect(symbol());
  }
  template <Expression Expr>
  effect minimize(const Expr&, detail::braces) const {
    static_assert(correct<trained_value_is_not_a_variable<std::initializer_list<Expr>, value_t<Expr>>>,
                  "minimize: the variables follow the loss, one by one: minimize(loss, w, b)");
    return effect(symbol());
  }
};

/// velocity = momentum * velocity + gradient; variable -= learning_rate * velocity (tf.train.MomentumOptimizer; Polyak
/// 1964).
struct momentum {
  double learning_rate = 0.01;
  double momentum = 0.9;

  template <class Expr, class... V>
  [[nodiscard]] effect minimize(const Expr& loss, const V&... variables) const {
    using mistake = minimize_mistake<Expr, V...>;
    static_assert(correct<mistake>,
                  "minimize: the loss must be a float or double scalar in a graph, use mean() or sum(); variables of "
                  "its type may follow it, one by one");
    if constexpr (correct<mistake>)
      return detail::minimize<gpu::momentums>(loss, "momentum",
                                              {&momentum_operation<value_t<Expr>>,
                                               {"momentum"},
                                               {detail::literal_bits(learning_rate), detail::literal_bits(momentum)}},
                                              {variables.erased()...});
    else
      return effect(symbol());
  }
  template <Expression Expr>
  effect minimize(const Expr&, detail::braces) const {
    static_assert(correct<trained_value_is_not_a_variable<std::initializer_list<Expr>, value_t<Expr>>>,
                  "minimize: the variables follow the loss, one by one: minimize(loss, w, b)");
    return effect(symbol());
  }
};

}  // namespace weft

WEFT_COLD_END
