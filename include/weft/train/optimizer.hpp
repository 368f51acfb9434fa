#pragma once

#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/effects.hpp>
#include <weft/graph/gradients.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/ops/optimizers.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

namespace detail {

/// How the variables are updated.
struct update_definition {
  const operation* op;
  const slot* slots;
  std::size_t slot_count;
  const hyperparameter* hyperparameters;
  std::size_t hyperparameter_count;
  bool by_rows;
};

effect record_minimize(graph&, symbol loss, const char* name, const update_definition&, sequence<symbol> variables);

#if WEFT_DEFINITIONS

/// A variable beside another, where an optimizer keeps what it remembers (a slot in TensorFlow).
inline value add_slot(graph& g, symbol variable, const slot& s) {
  if (!s.first.is_number())
    throw error(error_code::invalid_argument, s.name,
                "the first value of a slot is a number: not a hyperparameter that is a value of the graph");
  node_def c;
  c.op = &operation_of<variable_op>;
  c.outputs = {s.scalar ? value_info{variable.type(), shape()} : variable.info()};
  c.attributes = words_of(variable_op::attributes{variable_kind::slot});
  const std::uint32_t node = g.add(static_cast<node_def&&>(c), str_cat({g[variable.id().node].name, "/", s.name}));
  g.initialize(node, {initializer::kind_type::constant, s.first.number(), 0, {}});
  return {node, 0};
}

/// The rows that a gradient is the sum of, each with its number: where it is nothing else, and there are not too many
/// lists of them.
inline bool find_rows(const graph& g, value gradient, sequence<value>& lists, const operation*& sums) {
  const node_def& c = g[gradient.node].def;
  if (c.op->row_sums && c.attributes[0] == 0) {
    sums = c.op->row_sums;
    lists.append(c.inputs.data(), 2);
    return lists.size() <= 2 * max_row_lists;
  }
  const dtype type = g.info(gradient).type;
  return c.detail && c.detail == g.kernels(primitive::add, type, type) && g.info(c.inputs[0]) == g.info(gradient) &&
         g.info(c.inputs[1]) == g.info(gradient) && find_rows(g, c.inputs[0], lists, sums) &&
         find_rows(g, c.inputs[1], lists, sums);
}

/// The inputs of an update but for the gradient, and what else there is to it.
inline node_def update_without_gradient(graph& g, const update_definition& how, symbol variable,
                                        std::uint32_t& computed) {
  node_def c;
  c.op = how.op;
  c.inputs = {variable.id()};
  for (std::size_t k = 0; k < how.slot_count; ++k) c.inputs.push_back(add_slot(g, variable, how.slots[k]));
  for (std::size_t k = 0; k < how.hyperparameter_count; ++k) {
    const hyperparameter& h = how.hyperparameters[k];
    c.literals.push_back(literal_bits(h.number()));
    if (h.is_number()) continue;
    if (h.node().builder() != &g)
      throw error(error_code::invalid_argument, how.op->name, "a hyperparameter is a value of another graph");
    computed |= 1u << k;
    c.inputs.push_back(h.node().id());
  }
  c.outputs = {variable.info()};
  return c;
}

inline symbol record_update(graph& g, const update_definition& how, symbol variable, symbol gradient) {
  const graph::device_scope beside(g, g[variable.id().node].device);
  std::uint32_t computed = 0;
  node_def c = update_without_gradient(g, how, variable, computed);
  sequence<value> lists;
  const operation* sums = nullptr;
  if (!how.by_rows || !find_rows(g, gradient.id(), lists, sums)) {
    c.inputs.push_back(gradient.id());
    c.attributes = words_of(update_attributes{computed, 0, false});
    return g.record(static_cast<node_def&&>(c));
  }
  // The same of a gradient that others have summed, for who feeds it: no step runs it otherwise.
  node_def summed = c;
  node_def touched;
  touched.op = &operation_of<placeholder_op>;
  touched.outputs = {{dtype::int64, shape(variable.extents()[0])}};
  summed.inputs.push_back(gradient.id());
  summed.inputs.push_back({g.add(static_cast<node_def&&>(touched), g[variable.id().node].name + "/touched"), 0});
  summed.attributes = words_of(update_attributes{computed, 1, true});
  g.add(static_cast<node_def&&>(summed), g[variable.id().node].name + "/summed");

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

WEFT_DECL effect record_minimize(graph& g, symbol loss, const char* name, const update_definition& how,
                                 sequence<symbol> variables) {
  const bool all = variables.empty();
  const auto trains = [&](std::uint32_t n) {
    return g[n].def.op == &operation_of<variable_op> && kind_of(g[n].def) == variable_kind::trained;
  };
  for (std::uint32_t n = 0; all && n < g.size(); ++n)
    if (trains(n) && g[n].def.outputs[0].type == loss.type()) variables.push_back({&g, {n, 0}});
  for (const symbol& v : variables)
    if (!trains(v.id().node))
      throw error(error_code::invalid_argument, name,
                  {"the variable ", g[v.id().node].name, " is ", weft::name(kind_of(g[v.id().node].def)),
                   ": minimize() updates what is trained"});
  for (std::size_t i = 0; i < variables.size(); ++i)
    for (std::size_t j = 0; j < i && !all; ++j)
      if (variables[i].id() == variables[j].id())
        throw error(error_code::invalid_argument, name,
                    {"the variable ", g[variables[i].id().node].name, " is named twice, and would be updated twice"});
  const auto found = g.differentiate({loss}, {as_scalar(g, 1, loss.type())}, variables);
  sequence<symbol> updates;
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (!found[i].is_number())
      updates.push_back(record_update(g, how, variables[i], found[i]));
    else if (!all)
      throw error(error_code::invalid_argument, name,
                  {"the loss does not depend on the variable ", g[variables[i].id().node].name});
  for (std::uint32_t n = 0; updates.empty() && n < g.size(); ++n)
    if (trains(n) && g[n].def.outputs[0].type != loss.type())
      throw error(error_code::invalid_argument, name,
                  {"the loss is ", weft::name(loss.type()), " and depends on no variable of that type, ", g[n].name,
                   " is ", weft::name(g[n].def.outputs[0].type), ": cast the loss to the variables' type"});
  if (updates.empty()) throw error(error_code::invalid_argument, name, "the loss depends on no variable");
  const sequence<symbol> beside = updates_beside(g, loss);
  updates.append(beside.data(), beside.size());
  return record_group(g, updates, name);
}

#endif

template <class Optimizer, class Expr, class... V>
effect train(const Optimizer& optimizer, const Expr& loss, const V&... variables) {
  if constexpr (correct<minimize_mistake<Expr, V...>> && correct<optimizer_mistake<Optimizer>>) {
    using T = value_t<Expr>;
    gpu::compile_kernels<update_ops<Optimizer>::template of, T>();
    const auto root = let(loss);
    auto& g = *static_cast<graph*>(root.erased().builder());
    use_gradient_primitives<T>(g);
    update_definition how{&operation_of<update_op<Optimizer, T>>,
                          nullptr,
                          slots_of<Optimizer>,
                          reinterpret_cast<const hyperparameter*>(&optimizer),
                          hyperparameters_of<Optimizer>,
                          updates_by_rows<Optimizer>};
    if constexpr (slots_of<Optimizer> != 0) {
      const auto list = optimizer.slots();
      how.slots = list.all;
      return record_minimize(g, root.erased(), Optimizer::name, how, {variables.erased()...});
    } else {
      return record_minimize(g, root.erased(), Optimizer::name, how, {variables.erased()...});
    }
  } else {
    return effect(symbol());
  }
}

}  // namespace detail
}  // namespace weft

WEFT_COLD_END
