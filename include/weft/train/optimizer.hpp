#pragma once

#include <string>
#include <tuple>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/effects.hpp>
#include <weft/graph/gradients.hpp>
#include <weft/graph/graph_of.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/graph/variables.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/train/optimizers.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A gradient, and the variable that it is of: what an optimizer is given. The gradient may be changed, into any
/// expression of its type and its extents: `of_w.gradient = of_w.gradient * 0.5f`.
template <class Gradient, class Variable>
struct variable_gradient {
  Gradient gradient;
  Variable variable;
  symbol loss = {};    ///< of which it is; noted updates of it (add_update) are trained beside
  symbol beside = {};  ///< an effect that the training step has too, such as the reset of accumulated gradients
};
template <class Gradient, class Variable>
variable_gradient(Gradient, Variable) -> variable_gradient<Gradient, Variable>;

/// Those of all variables that a loss depends on, of the loss's element type. Their extents are not known as types:
/// gradients are symbols, with + - * / among each other and with `node.erased()`.
template <class T>
struct variable_gradients {
  sequence<variable_gradient<symbol, symbol>> pairs;

  auto begin() { return pairs.begin(); }
  auto end() { return pairs.end(); }
  auto begin() const { return pairs.begin(); }
  auto end() const { return pairs.end(); }
  std::size_t size() const { return pairs.size(); }
};

/// The gradients of a scalar loss, each with its variable: a tuple for those that are named, and without names a list,
/// of all that the loss depends on (compute_gradients of tf.train.Optimizer). With variables_in(g, scope) among them it
/// is a list, too. Throws invalid_argument if the loss does not depend on one that is named.
///
///     auto [of_w, of_b] = compute_gradients(loss, w, b);
///     of_w.gradient = min(max(of_w.gradient, -1.0f), 1.0f);
///     auto train = apply_gradients(momentum{}, of_w, of_b);
template <class Expr, class... V>
[[nodiscard]] auto compute_gradients(const Expr& loss, const V&... variables);

/// The training step that brings an optimizer these gradients: an effect. `pairs` are what compute_gradients() returns,
/// or parts of it, and may be followed by a counter of steps (apply_gradients of tf.train.Optimizer). Throws
/// invalid_argument for a variable that is there twice, or that is not trained.
template <class Optimizer, class... Pair>
[[nodiscard]] effect apply_gradients(const Optimizer& optimizer, const Pair&... pairs);

/// A training step by any optimizer, a program's own too: updates every variable that the scalar loss depends on, or
/// those that are named alone: an effect. Throws invalid_argument if the loss does not depend on one of them. Of a
/// list, `minimize(adam{}, loss, variables_in(g, "generator"))`, it updates the trained variables of the loss's type
/// that the loss depends on, and throws invalid_argument if these are none. No other optimizer of the graph is
/// affected. The same as `apply_gradients(optimizer, compute_gradients(loss, variables...))`. A counter of steps,
/// global_step(g), may stand among them: each step adds 1 to it (global_step of tf.train.Optimizer.minimize).
template <class Optimizer, class Expr, class... V>
  requires(!Expression<Optimizer>)
[[nodiscard]] auto minimize(const Optimizer& optimizer, const Expr& loss, const V&... variables);

/// An optimizer is given `variable_gradient`s, each of a variable and an expression of its type and extents.
template <class X>
struct applied_value_is_not_a_gradient : mistake<true> {};
template <class Gradient, class V>
struct applied_value_is_not_a_gradient<variable_gradient<Gradient, V>> : mistake<true> {};
template <class Gradient, class T, class D, class Dev>
  requires(Expression<Gradient>)
struct applied_value_is_not_a_gradient<variable_gradient<Gradient, variable_node<T, D, Dev>>>
    : mistake<!std::is_same_v<value_t<Gradient>, T> || !std::is_same_v<dims_t<Gradient>, D>> {};
template <class... Pair>
struct applied_value_is_not_a_gradient<std::tuple<Pair...>>
    : mistake<(!correct<applied_value_is_not_a_gradient<Pair>> || ...)> {};
template <class T>
struct applied_value_is_not_a_gradient<variable_gradients<T>> : mistake<false> {};
template <class Dev>
struct applied_value_is_not_a_gradient<variable_node<std::int64_t, dims<>, Dev>> : mistake<false> {};

/// A counter of steps is given to apply_gradients(), and not to compute_gradients().
template <class V>
struct counter_has_no_gradient : mistake<is_step_counter<V>> {};

#define WEFT_NEEDS_OF_OPTIMIZER                                                                                  \
  "an optimizer's members are hyperparameters and numbers, at most 16; it has a name, and at most 8 slots; its " \
  "update "                                                                                                      \
  "takes the variable, its slots in their order and the gradient, its advance its scalar slots: "                \
  "docs/how-to/optimizers.md"

namespace detail {

/// How the variables are updated.
struct update_definition {
  const char* name;
  const slot* slots;
  std::size_t slot_count;
  const hyperparameter* hyperparameters;
  std::size_t hyperparameter_count;
  bool by_rows;
  const void* optimizer;
  std::size_t norm_count;
  /// Makes nodes of the norms: `operands` are the variable, its slots and the gradient.
  void (*norms)(const void* optimizer, const symbol* operands, symbol* norms);
};

/// One variable's part of a training step.
struct applied_gradient {
  variable_gradient<symbol, symbol> pair;
  const operation* update;
};

/// Appends the variables of a list that may be trained for a loss of this type. Output 1, which no variable has, marks
/// them: the loss need not depend on each. Throws invalid_argument if the list has none.
void append_listed(sequence<symbol>& named, const variable_list& list, dtype of_loss, const char* who);
/// Records the gradients of the variables, or of all trained ones that the loss depends on where none is named.
sequence<variable_gradient<symbol, symbol>> record_gradients(graph&, symbol loss, const char* who,
                                                             sequence<symbol> variables);
symbol record_sum_of_squares(symbol);
/// The rows that a gradient is the sum of, each with its number: where it is nothing else, and there are not too many
/// lists of them.
bool find_rows(const graph&, value gradient, sequence<value>& lists, const operation*& sums);
/// The update of one variable, and its slots beside it.
symbol record_update(graph&, const update_definition&, const applied_gradient&);
/// Throws invalid_argument unless each variable is trained, and is there once.
void check_trained(const graph&, const char* who, const sequence<symbol>& variables);
/// Unless it is there, or is none.
void append_once(sequence<symbol>& all, symbol one);
/// The updates that were noted for these losses.
void append_noted(graph&, const sequence<symbol>& losses, sequence<symbol>& members);
/// `beside`: effects that every step has, too.
effect record_updates(graph&, const update_definition&, const sequence<applied_gradient>&,
                      const sequence<symbol>& beside);
/// Throws invalid_argument unless the variable is a counter.
symbol check_counter(const char* who, symbol);

#if WEFT_DEFINITIONS

inline bool is_trained(const graph& g, std::uint32_t n) {
  return g[n].def.op == &operation_of<variable_op> && kind_of(g[n].def) == variable_kind::trained;
}

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

WEFT_DECL bool find_rows(const graph& g, value gradient, sequence<value>& lists, const operation*& sums) {
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
      throw error(error_code::invalid_argument, how.name, "a hyperparameter is a value of another graph");
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
  if (!how.by_rows || !find_rows(g, gradient.id(), lists, sums)) {
    c.inputs.push_back(gradient.id());
    c.attributes = words_of(update_attributes{computed, 0, false});
    return g.record(static_cast<node_def&&>(c));
  }
  // The same of a gradient that others have summed, for the caller that feeds it: no step runs it otherwise.
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

WEFT_DECL void check_trained(const graph& g, const char* who, const sequence<symbol>& variables) {
  for (const symbol& v : variables)
    if (!is_trained(g, v.id().node))
      throw error(error_code::invalid_argument, who,
                  {"the variable ", g[v.id().node].name, " is ", weft::name(kind_of(g[v.id().node].def)),
                   ": minimize() updates what is trained"});
  for (std::size_t i = 0; i < variables.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (variables[i].id() == variables[j].id() && variables[i].id().output == 0)
        throw error(error_code::invalid_argument, who,
                    {"the variable ", g[variables[i].id().node].name, " is named twice, and would be updated twice"});
}

WEFT_DECL void append_listed(sequence<symbol>& named, const variable_list& list, dtype of_loss, const char* who) {
  const std::size_t before = named.size();
  for (const symbol& v : list.erased())
    if (is_trained(graph_of(v), v.id().node) && v.type() == of_loss) named.push_back(v.output(1));
  if (named.size() == before)
    throw error(error_code::invalid_argument, who,
                {"no variable of the list is trained and ", weft::name(of_loss), " as the loss is: ",
                 list.size() == 0 ? std::string("it is empty, and variables_in(g, scope) makes one")
                                  : str_cat({"it is of the scope \"", list.scope(), "\""})});
}

WEFT_DECL sequence<variable_gradient<symbol, symbol>> record_gradients(graph& g, symbol loss, const char* who,
                                                                       sequence<symbol> variables) {
  const bool all = variables.empty();
  for (std::uint32_t n = 0; all && n < g.size(); ++n)
    if (is_trained(g, n) && g[n].def.outputs[0].type == loss.type()) variables.push_back({&g, {n, 0}});
  if (!all) check_trained(g, who, variables);
  sequence<symbol> each;
  for (const symbol& v : variables) {
    check_same_graph(who, &g, v.builder());
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
                  {"the loss is ", weft::name(loss.type()), " and depends on no variable of that type, ", g[n].name,
                   " is ", weft::name(g[n].def.outputs[0].type), ": cast the loss to the variables' type"});
  if (pairs.empty())
    throw error(error_code::invalid_argument, who,
                {"the loss depends on no variable", all ? "" : " of the list, whose first one is ",
                 all ? "" : g[variables[0].id().node].name.c_str()});
  return pairs;
}

WEFT_DECL symbol record_sum_of_squares(symbol x) { return sum(x * x); }

WEFT_DECL symbol check_counter(const char* who, symbol variable) {
  const graph_node& n = (*static_cast<const graph*>(variable.builder()))[variable.id().node];
  if (kind_of(n.def) != variable_kind::counter)
    throw error(error_code::invalid_argument, who,
                {"the variable ", n.name, " is ", weft::name(kind_of(n.def)),
                 ", and what counts steps is a counter: global_step(g)"});
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

WEFT_DECL effect record_updates(graph& g, const update_definition& how, const sequence<applied_gradient>& all,
                                const sequence<symbol>& beside) {
  sequence<symbol> variables, losses, members = beside;
  for (const applied_gradient& each : all) {
    const auto& [gradient, variable, loss, also] = each.pair;
    check_same_graph("apply_gradients", &g, variable.builder());
    if (gradient.is_number())
      throw error(error_code::invalid_argument, how.name,
                  {"the gradient of ", g[variable.id().node].name,
                   " is a number without extents: an expression of the gradient has them"});
    check_same_graph("apply_gradients", &g, gradient.builder());
    if (!(gradient.info() == variable.info()))
      throw error(error_code::invalid_argument, how.name,
                  {"the gradient of ", g[variable.id().node].name, " is ", weft::name(gradient.type()), " of extents ",
                   to_string(gradient.extents()), " where the variable is ", weft::name(variable.type()), " of ",
                   to_string(variable.extents()), ": they are the same"});
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

template <class... Member>
void append_each(sequence<hyperparameter>& all, const Member&... members) {
  const auto as_hyperparameter = [](const auto& m) {
    if constexpr (std::is_same_v<decltype(m), const hyperparameter&>)
      return m;
    else
      return hyperparameter(static_cast<double>(m));
  };
  (all.push_back(as_hyperparameter(members)), ...);
}
/// Appends the members of an optimizer, which need not all be hyperparameters.
template <class Optimizer>
void append_members(const Optimizer& o, sequence<hyperparameter>& all) {
#define WEFT_MEMBERS(count, ...)                  \
  if constexpr (members_of<Optimizer> == count) { \
    const auto& [__VA_ARGS__] = o;                \
    append_each(all, __VA_ARGS__);                \
  }
  if constexpr (requires { typename Optimizer::extended; }) {  // an optimizer with something added (decay.hpp)
    append_members(o.optimizer, all);
    append_each(all, o.weight_decay);
  } else {
    WEFT_MEMBERS(1, a)
    WEFT_MEMBERS(2, a, b)
    WEFT_MEMBERS(3, a, b, c)
    WEFT_MEMBERS(4, a, b, c, d)
    WEFT_MEMBERS(5, a, b, c, d, e)
    WEFT_MEMBERS(6, a, b, c, d, e, f)
    WEFT_MEMBERS(7, a, b, c, d, e, f, g)
    WEFT_MEMBERS(8, a, b, c, d, e, f, g, h)
    WEFT_MEMBERS(9, a, b, c, d, e, f, g, h, i)
    WEFT_MEMBERS(10, a, b, c, d, e, f, g, h, i, j)
    WEFT_MEMBERS(11, a, b, c, d, e, f, g, h, i, j, k)
    WEFT_MEMBERS(12, a, b, c, d, e, f, g, h, i, j, k, l)
    WEFT_MEMBERS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
    WEFT_MEMBERS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
    WEFT_MEMBERS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, p)
    WEFT_MEMBERS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, p, q)
  }
#undef WEFT_MEMBERS
}

/// A number that `norms` and `advance` compute with where they are recorded: a value of the graph, rounded to `type`.
class recorded_number {
 public:
  recorded_number(double number) : value_(number) {}
  recorded_number(symbol value) : value_(value) {}
  recorded_number(const hyperparameter& h) : value_(h.node()) {}
  symbol value(dtype type) const {
    return value_.is_number() || value_.type() == type ? value_ : math::convert(value_, type);
  }

#define WEFT_RECORDED(op)                                                                  \
  friend recorded_number operator op(const recorded_number& a, const recorded_number& b) { \
    const dtype type = common(a, b);                                                       \
    return a.value(type) op b.value(type);                                                 \
  }                                                                                        \
  recorded_number& operator op##=(const recorded_number & b) { return *this = *this op b; }
  WEFT_RECORDED(+)
  WEFT_RECORDED(-)
  WEFT_RECORDED(*)
  WEFT_RECORDED(/)
#undef WEFT_RECORDED
  friend recorded_number operator-(const recorded_number& a) { return -a.value_; }
  friend recorded_number sqrt(const recorded_number& a) { return math::sqrt(a.value_); }
  friend recorded_number abs(const recorded_number& a) { return math::abs(a.value_); }

 private:
  // A hyperparameter that is a value of the graph is a double, and takes the type of what it meets.
  static dtype common(const recorded_number& a, const recorded_number& b) {
    if (a.value_.is_number()) return b.value_.is_number() ? dtype::float64 : b.value_.type();
    if (b.value_.is_number()) return a.value_.type();
    return a.value_.type() == dtype::float32 ? dtype::float32 : b.value_.type();
  }

  symbol value_;
};

// A template: what optimizers without norms do not need is then not compiled for them.
template <class Optimizer>
inline constexpr primitive_set in_norms{primitive::add,    primitive::subtract, primitive::multiply,
                                        primitive::divide, primitive::negate,   primitive::sqrt,
                                        primitive::abs,    primitive::convert};

template <class Optimizer, std::size_t... Slot, std::size_t... Scalar>
void record_norms(const Optimizer& o, const symbol* operands, symbol* norms, indices<Slot...>, indices<Scalar...>) {
  constexpr std::size_t slots = sizeof...(Slot);
  sequence<recorded_number> slot, scalar;
  for (std::size_t k = 0; k < slots; ++k) {
    slot.push_back(operands[1 + k]);
    if (layout_of<Optimizer>.is_scalar(k)) scalar.push_back(operands[1 + k]);
  }
  if constexpr (sizeof...(Scalar) != 0) o.advance(scalar[Scalar]...);
  for (std::size_t k = 0, next = 0; k < slots; ++k)
    if (layout_of<Optimizer>.is_scalar(k)) slot[k] = scalar[next++];
  const auto list = o.norms(recorded_number(operands[0]), slot[Slot]..., recorded_number(operands[1 + slots]));
  for (std::size_t k = 0; k < norms_of<Optimizer>; ++k) {
    const symbol sum = record_sum_of_squares(list.all[k].value(operands[0].type()));
    norms[k] = recorded_number(math::sqrt(sum)).value(dtype::float64);
  }
}
template <class Optimizer>
void record_norms(const void* optimizer, const symbol* operands, symbol* norms) {
  record_norms(*static_cast<const Optimizer*>(optimizer), operands, norms, slot_indices<Optimizer>(),
               scalar_indices<Optimizer>());
}

template <class Optimizer, class Compiler = gpu::this_compiler>
effect record_updates(graph& g, const Optimizer& optimizer, const sequence<applied_gradient>& all,
                      const sequence<symbol>& beside) {
  update_definition how{Optimizer::name,
                        nullptr,
                        slots_of<Optimizer>,
                        reinterpret_cast<const hyperparameter*>(&optimizer),
                        members_of<Optimizer>,
                        updates_by_rows<Optimizer>,
                        &optimizer,
                        norms_of<Optimizer>,
                        nullptr};
  sequence<hyperparameter> members;
  if constexpr (sizeof(Optimizer) != members_of<Optimizer> * sizeof(hyperparameter) && members_of<Optimizer> != 0) {
    append_members(optimizer, members);
    how.hyperparameters = members.data();
  }
  if constexpr (norms_of<Optimizer> != 0) {
    how.norms = record_norms<Optimizer>;
    g.use(primitives_in<float, in_norms<Optimizer>>);
    g.use(primitives_in<double, in_norms<Optimizer>>);
    gpu::compiled<Compiler>::template primitives<float>();
    gpu::compiled<Compiler>::template primitives<double>();
  }
  if constexpr (slots_of<Optimizer> != 0) {
    const auto list = optimizer.slots();
    how.slots = list.all;
    return record_updates(g, how, all, beside);
  } else {
    return record_updates(g, how, all, beside);
  }
}

/// The operation that an optimizer updates elements of type T with.
template <class Optimizer, class T>
const operation* update_of() {
  gpu::compile_kernels<update_ops<Optimizer>::template of, T>();
  return &operation_of<update_op<Optimizer, T>>;
}

/// The formula's own mistakes are said of the call that names the optimizer.
template <class Optimizer, class T>
void check_formula(const Optimizer& optimizer) {
  if (false)
    use_formula<Optimizer, exact<T>>(optimizer, nullptr, slot_indices<Optimizer>(), scalar_indices<Optimizer>(),
                                     norm_indices<Optimizer>());
}

template <class Optimizer, class Gradient, class T, class D, class Dev>
void append_applied(const Optimizer& optimizer, const variable_gradient<Gradient, variable_node<T, D, Dev>>& pair,
                    sequence<applied_gradient>& all, sequence<symbol>&) {
  check_formula<Optimizer, T>(optimizer);
  all.push_back(
      {{let(pair.gradient).erased(), pair.variable.erased(), pair.loss, pair.beside}, update_of<Optimizer, T>()});
}
template <class Optimizer, class... Pair>
void append_applied(const Optimizer& optimizer, const std::tuple<Pair...>& pairs, sequence<applied_gradient>& all,
                    sequence<symbol>& beside) {
  std::apply([&](const auto&... pair) { (append_applied(optimizer, pair, all, beside), ...); }, pairs);
}
template <class Optimizer, class T>
void append_applied(const Optimizer& optimizer, const variable_gradients<T>& list, sequence<applied_gradient>& all,
                    sequence<symbol>&) {
  check_formula<Optimizer, T>(optimizer);
  for (const auto& pair : list) all.push_back({pair, update_of<Optimizer, T>()});
}
template <class Optimizer, class Dev>
void append_applied(const Optimizer&, const variable_node<std::int64_t, dims<>, Dev>& counter,
                    sequence<applied_gradient>&, sequence<symbol>& beside) {
  check_counter(Optimizer::name, counter.erased());
  beside.push_back(assign_add(counter, 1).erased());
}

/// Appends a variable or those of a list, which are named beside a loss of T.
template <class T, class V>
void append_variable(const V& named, const char* who, sequence<symbol>& variables) {
  if constexpr (std::is_same_v<V, variable_list>)
    append_listed(variables, named, dtype_of<T>, who);
  else
    variables.push_back(named.erased());
}
/// Appends what is named beside a loss: a variable, or a counter that each step adds 1 to.
template <class Optimizer, class T, class V>
void append_named(const V& named, sequence<symbol>& variables, sequence<symbol>& beside) {
  if constexpr (is_step_counter<V>) {
    check_counter(Optimizer::name, named.erased());
    beside.push_back(assign_add(named, 1).erased());
  } else {
    append_variable<T>(named, Optimizer::name, variables);
  }
}

/// Whether compute_gradients() of these variables returns a list: it has no types for those of a scope.
template <class... V>
inline constexpr bool is_listed = sizeof...(V) == 0 || (std::is_same_v<V, variable_list> || ...);

}  // namespace detail

template <class Optimizer, class Expr, class... V>
  requires(!Expression<Optimizer>)
auto minimize(const Optimizer& optimizer, const Expr& loss, const V&... variables) {
  static_assert(correct<optimizer_mistake<Optimizer>>, WEFT_NEEDS_OF_OPTIMIZER);
  static_assert(correct<minimize_mistake<Expr, V...>>, WEFT_NEEDS_OF_MINIMIZE);
  if constexpr (correct<minimize_mistake<Expr, V...>> && correct<optimizer_mistake<Optimizer>>) {
    using T = value_t<Expr>;
    if (false)
      detail::use_formula<Optimizer, exact<T>>(optimizer, nullptr, detail::slot_indices<Optimizer>(),
                                               detail::scalar_indices<Optimizer>(), detail::norm_indices<Optimizer>());
    const auto root = let(loss);
    auto& g = *static_cast<graph*>(root.erased().builder());
    detail::use_gradient_primitives<T>(g);
    sequence<symbol> named, beside;
    (detail::append_named<Optimizer, T>(variables, named, beside), ...);
    sequence<detail::applied_gradient> all;
    for (const auto& pair : detail::record_gradients(g, root.erased(), Optimizer::name, named))
      all.push_back({pair, detail::update_of<Optimizer, T>()});
    return detail::record_updates(g, optimizer, all, beside);
  } else {
    return effect(symbol());
  }
}

template <class Optimizer, class... Pair>
effect apply_gradients(const Optimizer& optimizer, const Pair&... pairs) {
  using mistake = apply_mistake<Pair...>;
  static_assert(correct<optimizer_mistake<Optimizer>>, WEFT_NEEDS_OF_OPTIMIZER);
  static_assert(correct<mistake>, WEFT_NEEDS_OF_APPLY);
  if constexpr (correct<mistake> && correct<optimizer_mistake<Optimizer>>) {
    sequence<detail::applied_gradient> all;
    sequence<symbol> beside;
    (detail::append_applied(optimizer, pairs, all, beside), ...);
    if (all.empty()) throw error(error_code::invalid_argument, Optimizer::name, "there are no gradients to apply");
    return detail::record_updates(*static_cast<graph*>(all[0].pair.variable.builder()), optimizer, all, beside);
  } else {
    return effect(symbol());
  }
}

template <class Expr, class... V>
auto compute_gradients(const Expr& loss, const V&... variables) {
  using mistake = first_mistake<minimize_mistake<Expr, V...>, counter_has_no_gradient<V>...>;
  static_assert(correct<mistake>, WEFT_NEEDS_OF_MINIMIZE);
  if constexpr (correct<mistake>) {
    const auto root = let(loss);
    auto& g = *static_cast<graph*>(root.erased().builder());
    detail::use_gradient_primitives<value_t<Expr>>(g);
    sequence<symbol> named;
    (detail::append_variable<value_t<Expr>>(variables, "compute_gradients", named), ...);
    auto pairs = detail::record_gradients(g, root.erased(), "compute_gradients", named);
    if constexpr (detail::is_listed<V...>) {
      return variable_gradients<value_t<Expr>>{static_cast<decltype(pairs)&&>(pairs)};
    } else {
      auto next = [&, i = std::size_t{0}]() mutable { return pairs[i++].gradient; };
      using detail::node_of;
      return std::tuple{
          variable_gradient<decltype(node_of<V>(symbol())), V>{node_of<V>(next()), variables, root.erased()}...};
    }
  } else {
    return std::tuple{variables...};
  }
}

#undef WEFT_NEEDS_OF_OPTIMIZER

}  // namespace weft

WEFT_COLD_END
