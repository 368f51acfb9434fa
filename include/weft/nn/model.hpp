// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>

#include <weft/graph/variables.hpp>
#include <weft/nn/visit.hpp>

/// Functions for whole models: names, variables, and a table of layers.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Returns the model with names for all of its layers; call it before their first call. `auto net = nn::named(lenet{},
/// "lenet")` has the variables "lenet/first/weights", "lenet/first/bias", ... A layer in an array or a vector is named
/// by its index: "lenet/blocks/0/weights". A layer behind a raw pointer or a std::reference_wrapper keeps an existing
/// name. Throws failed_precondition if another layer was already called under another name.
template <class Model>
[[nodiscard]] Model named(Model model, const std::string& name);

/// Returns the variables of a model, or of one of its layers, after its first call: `adam{}.minimize(loss,
/// nn::parameters(net))`. Throws failed_precondition before the first call.
template <class Model>
[[nodiscard]] variable_list parameters(const Model& model);

/// Freezes a model's trained variables, so that optimizers recorded later do not update them, and returns the number of
/// changed variables: `nn::freeze(net.stem)`. Throws failed_precondition if an optimizer already updates one of them.
template <class Model>
std::size_t freeze(const Model& model);
/// Makes a model's frozen variables trained again, and returns the number of changed variables.
template <class Model>
std::size_t unfreeze(const Model& model);

/// Returns the number of elements of a model's trained and frozen floating-point variables, without moving averages and
/// counters (the sum of numel() over PyTorch's parameters()). Variables that several layers share count once. Throws
/// failed_precondition before the first call.
template <class Model>
[[nodiscard]] std::int64_t parameter_count(const Model& model);

/// Returns a table with a row for each layer: its name, the extents of its result, the elements of its variables as in
/// parameter_count, the multiply-adds of its matrix products and convolutions, and the bytes of its result. The last
/// line contains the sums. Multiply-adds and bytes are per example: named extents count as 1. Calls the model with the
/// operands, `describe(net, ids, nn::lengths(n))`, and with mode::inference if it takes a mode. Without operands,
/// `describe(net)` shows the last call of each layer, and throws failed_precondition before the first. (Keras's
/// summary().)
template <class Model, class... Operands>
[[nodiscard]] std::string describe(const Model& model, const Operands&... operands);

namespace detail {

/// Collects the variables of a model.
class parameter_collector final : public layer_visitor {
 public:
  void layer(const std::string& path, const layer_state&, const parameter_list&) override;
  void variable(const std::string& path, const weft::detail::handle&) override;
  variable_list list() const;
  std::int64_t count() const;
  std::size_t set_frozen(bool frozen) const;

 private:
  sequence<symbol> found_;
};

template <class Model>
parameter_collector collect_parameters(const Model& model) {
  parameter_collector v;
  visit_model("", model, v);
  return v;
}

/// Names the layers of a model. A layer that several members share gets the name of the first.
class path_setter final : public layer_visitor {
 public:
  void layer(const std::string& path, const layer_state&, const parameter_list&) override;
  void variable(const std::string&, const weft::detail::handle&) override {}

 private:
  sequence<const layer_state*> named_;
};

/// Collects the rows of a description, in the order of the calls.
class layer_table final : public layer_visitor {
 public:
  void layer(const std::string& path, const layer_state&, const parameter_list&) override;
  void variable(const std::string& path, const weft::detail::handle&) override;
  std::string text(bool called);

 private:
  struct row {
    std::string name, output;
    std::int64_t parameters = 0, multiply_adds = 0, bytes = 0;
    std::uint32_t first = 0;
  };
  void add(row r);

  sequence<row> rows_;
  sequence<symbol> found_, results_;
  sequence<std::string> counted_;  // the scopes of the layers added so far
};

template <class Model, class... Operands>
void call_for_inference(const Model& model, const Operands&... operands) {
  if constexpr (requires { model(operands..., mode::inference); })
    static_cast<void>(model(operands..., mode::inference));
  else
    static_cast<void>(model(operands...));
}

/// Adds a variable to `found`. Returns false if it is already there.
bool add_once(sequence<symbol>& found, const symbol& variable);
/// Returns true if a member of a model is a variable, and not an empty handle or a computed node.
bool is_variable(const weft::detail::handle& member);
/// Returns true for trained and frozen floating-point variables, which are PyTorch's parameters().
bool is_parameter(const symbol& variable);
/// Returns the number of a variable's elements; 0 if it is not a parameter.
std::int64_t parameters_of(const symbol& variable);

#if WEFT_DEFINITIONS

WEFT_DECL void path_setter::layer(const std::string& path, const layer_state& l, const parameter_list&) {
  for (const layer_state* other : named_)
    if (other == &l) return;
  if (is_borrowed() && (l.has_variables() || !l.path().empty())) return;
  named_.push_back(&l);
  l.set_path(path);
}

WEFT_DECL void parameter_collector::layer(const std::string& path, const layer_state&,
                                          const parameter_list& variables) {
  for (const named_parameter& p : variables) variable(path, *p.variable);
}
WEFT_DECL void parameter_collector::variable(const std::string&, const weft::detail::handle& member) {
  if (is_variable(member)) add_once(found_, member.erased());
}

WEFT_DECL bool is_variable(const weft::detail::handle& member) {
  return !member.empty() && is_operation<variable_op>(graph_of(member.erased())[member.id().node].def.op);
}

WEFT_DECL bool add_once(sequence<symbol>& found, const symbol& variable) {
  for (const symbol& other : found)
    if (other.id() == variable.id()) return false;
  found.push_back(variable);
  return true;
}

WEFT_DECL bool is_parameter(const symbol& variable) {
  const variable_kind kind = kind_of(graph_of(variable)[variable.id().node].def);
  return (kind == variable_kind::trained || kind == variable_kind::frozen) && is_floating(variable.type());
}

WEFT_DECL std::int64_t parameters_of(const symbol& variable) {
  return is_parameter(variable) ? static_cast<std::int64_t>(variable.extents().elements()) : 0;
}

WEFT_DECL std::int64_t parameter_collector::count() const {
  std::int64_t sum = 0;
  const variable_list all = list();
  for (const symbol& v : all.erased()) sum += parameters_of(v);
  return sum;
}

WEFT_DECL variable_list parameter_collector::list() const {
  if (found_.empty())
    throw error(error_code::failed_precondition, "parameters",
                "the model has no variables yet: its first call creates them");
  return {"", found_};
}

WEFT_DECL std::size_t parameter_collector::set_frozen(bool frozen) const {
  std::size_t changed = 0;
  const variable_kind from = frozen ? variable_kind::trained : variable_kind::frozen;
  const variable_list all = list();
  for (const symbol& v : all.erased()) {
    if (kind_of(graph_of(v)[v.id().node].def) != from) continue;
    weft::detail::set_frozen(v, frozen);
    ++changed;
  }
  return changed;
}

/// Named extents count as 1.
inline shape of_one_example(shape s) {
  for (std::size_t i = 0; i < s.rank; ++i)
    if (s[i] < 0) s[i] = 1;
  return s;
}

/// The multiply-adds for one example of a node and its subgraphs.
inline double multiply_adds_of(const graph& g, const node_def& d) {
  double sum = 0;
  if (d.op->multiply_adds)
    sum = d.op->multiply_adds(of_one_example(g.info(d.inputs[0]).extents), of_one_example(g.info(d.inputs[1]).extents),
                              of_one_example(d.outputs[0].extents));
  // A transposed convolution: filters [height, width, out, in], images [batch, height, width, in].
  if (std::string_view(d.op->name) == "conv2d_input_gradient") {
    const shape filters = g.info(d.inputs[0]).extents, images = of_one_example(g.info(d.inputs[1]).extents);
    sum = static_cast<double>(filters[0] * filters[1] * filters[2]) * static_cast<double>(images.elements());
  }
  if (!d.op->iterations) return sum;
  const std::int64_t iterations = d.op->iterations(d);
  for (const std::uint32_t b : d.subgraphs) {
    const graph& body = g.subgraph_at(b).nodes;
    for (std::uint32_t n = 0; n < body.size(); ++n)
      sum += static_cast<double>(iterations < 0 ? 1 : iterations) * multiply_adds_of(body, body[n].def);
  }
  return sum;
}
/// The multiply-adds of one call, without inner layers, whose scopes are `counted`.
inline double multiply_adds_of(const graph& g, const recorded_call& call, const sequence<std::string>& counted) {
  double sum = 0;
  const auto is_counted = [&](const std::string& name) {
    for (const std::string& inner : counted)
      if (inner.size() > call.scope.size() && name.starts_with(inner)) return true;
    return false;
  };
  sequence<char> reached(call.result.id().node + 1, 0);
  reached[call.result.id().node] = 1;
  for (std::uint32_t n = call.result.id().node + 1; n-- > 0;) {
    if (!reached[n] || n == call.operand.id().node || !g[n].name.starts_with(call.scope)) continue;
    if (!is_counted(g[n].name)) sum += multiply_adds_of(g, g[n].def);
    for (const value& in : g[n].def.inputs) reached[in.node] = 1;
  }
  return sum;
}

WEFT_DECL void layer_table::layer(const std::string& path, const layer_state& l, const parameter_list& variables) {
  const recorded_call& call = l.last_call();
  if (call.result.is_number() || !add_once(results_, call.result)) {  // a weight has variables and no calls
    for (const named_parameter& p : variables) variable(path, *p.variable);
    return;
  }
  const graph& g = graph_of(call.result);
  row r;
  r.name = path.empty() ? l.kind() : path;
  r.output = g.to_string(call.result.extents());
  r.first = call.first;
  for (const named_parameter& p : variables)
    if (is_variable(*p.variable) && add_once(found_, p.variable->erased()))
      r.parameters += parameters_of(p.variable->erased());
  r.multiply_adds = static_cast<std::int64_t>(multiply_adds_of(g, call, counted_));
  r.bytes = static_cast<std::int64_t>(value_info{call.result.type(), of_one_example(call.result.extents())}.bytes());
  counted_.push_back(call.scope);
  add(static_cast<row&&>(r));
}

WEFT_DECL void layer_table::variable(const std::string& path, const weft::detail::handle& member) {
  if (!is_variable(member) || !add_once(found_, member.erased())) return;
  row r;
  r.name = path.empty() ? "variable" : path;
  r.parameters = parameters_of(member.erased());
  r.first = member.id().node;
  add(static_cast<row&&>(r));
}

WEFT_DECL void layer_table::add(row r) {
  std::size_t at = rows_.size();
  rows_.push_back(r);
  for (; at > 0 && rows_[at - 1].first > r.first; --at) rows_[at] = rows_[at - 1];
  rows_[at] = static_cast<row&&>(r);
}

/// Formats 1234567 as "1,234,567".
inline std::string with_commas(std::int64_t n) {
  std::string s = str_cat({n});
  for (std::size_t i = s.size(); i > 3; i -= 3) s.insert(i - 3, ",");
  return s;
}

WEFT_DECL std::string layer_table::text(bool called) {
  if (rows_.empty() && !called)
    throw error(error_code::failed_precondition, "describe",
                "the model was not called yet: pass its operands, describe(model, x), or call it first");
  sequence<std::string> cells[5];
  const char* const heads[] = {"layer", "output", "parameters", "multiply-adds", "bytes"};
  for (std::size_t c = 0; c < 5; ++c) cells[c].push_back(heads[c]);
  std::int64_t sums[3] = {};
  const auto add = [&](const std::string& name, const std::string& output, const std::int64_t(&numbers)[3]) {
    cells[0].push_back(name);
    cells[1].push_back(output);
    for (std::size_t c = 0; c < 3; ++c) cells[2 + c].push_back(with_commas(numbers[c]));
  };
  for (const row& r : rows_) {
    add(r.name, r.output, {r.parameters, r.multiply_adds, r.bytes});
    sums[0] += r.parameters, sums[1] += r.multiply_adds, sums[2] += r.bytes;
  }
  add("sum", "", sums);
  std::string s;
  for (std::size_t line = 0; line < cells[0].size(); ++line) {
    for (std::size_t c = 0; c < 5; ++c) {
      std::size_t width = 0;
      for (const std::string& cell : cells[c]) width = cell.size() > width ? cell.size() : width;
      const std::string& cell = cells[c][line];
      const std::string space(width - cell.size(), ' ');
      append(s, c < 2 ? std::initializer_list<piece>{c ? "  " : "", cell, space}
                      : std::initializer_list<piece>{"  ", space, cell});
    }
    s += '\n';
  }
  return s;
}

#endif

}  // namespace detail

template <class Model>
Model named(Model model, const std::string& name) {
  static_assert(correct<model_mistake<Model>>, WEFT_NEEDS_LAYERS);
  detail::path_setter v;
  detail::visit_model(name, model, v);
  return model;
}

template <class Model>
variable_list parameters(const Model& model) {
  static_assert(correct<model_mistake<Model>>, WEFT_NEEDS_LAYERS);
  return detail::collect_parameters(model).list();
}

template <class Model>
std::size_t freeze(const Model& model) {
  static_assert(correct<model_mistake<Model>>, WEFT_NEEDS_LAYERS);
  return detail::collect_parameters(model).set_frozen(true);
}
template <class Model>
std::size_t unfreeze(const Model& model) {
  static_assert(correct<model_mistake<Model>>, WEFT_NEEDS_LAYERS);
  return detail::collect_parameters(model).set_frozen(false);
}

template <class Model>
std::int64_t parameter_count(const Model& model) {
  static_assert(correct<model_mistake<Model>>, WEFT_NEEDS_LAYERS);
  return detail::collect_parameters(model).count();
}

template <class Model, class... Operands>
std::string describe(const Model& model, const Operands&... operands) {
  static_assert(correct<model_mistake<Model>>, WEFT_NEEDS_LAYERS);
  if constexpr (sizeof...(Operands) > 0) detail::call_for_inference(model, operands...);
  detail::layer_table v;
  detail::visit_model("", model, v);
  return v.text(sizeof...(Operands) > 0);
}

}  // namespace weft::nn
WEFT_COLD_END
