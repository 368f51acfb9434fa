// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/graph/effects.hpp>
#include <weft/graph/variables.hpp>
#include <weft/session/session.hpp>
#include <weft/train/average_rules.hpp>
#include <weft/train/optimizer.hpp>
#include <weft/train/schedules.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// Exponential moving averages of variables: a model often performs better with them than with its last values.
WEFT_COLD_BEGIN
namespace weft {

/// num_updates must be a counter, or an integer or floating-point scalar of the graph.
template <class X>
struct count_is_not_a_scalar_node : mistake<true> {};
template <Expression X>
struct count_is_not_a_scalar_node<X> : mistake<!X::symbolic || dims_t<X>::rank != 0> {};

/// The number of updates, for exponential_moving_average: `.num_updates = global_step(g)`.
class update_count {
 public:
  update_count() = default;
  template <class X>
  update_count(const X& count) : is_given_(true) {
    static_assert(correct<count_is_not_a_scalar_node<X>>,
                  "num_updates: must be a scalar of the graph that counts updates, such as global_step(g)");
    if constexpr (is_step_counter<X>)
      counter_ = count.erased();
    else if constexpr (correct<count_is_not_a_scalar_node<X>>)
      value_ = let(cast<double>(count)).erased();
  }

  bool is_given() const { return is_given_; }
  symbol counter() const { return counter_; }  ///< an int64; a number if value() is set
  symbol value() const { return value_; }      ///< otherwise: a double

 private:
  bool is_given_ = false;
  symbol counter_, value_;
};

/// The first argument must be the training effect.
template <class X>
struct average_does_not_name_the_training : mistake<true> {};
template <>
struct average_does_not_name_the_training<effect> : mistake<false> {};
/// Averaged values must be variables of float or double, one per argument.
template <class X>
struct averaged_value_is_not_a_variable : mistake<true> {};
template <class T, class D, class Dev>
struct averaged_value_is_not_a_variable<variable_node<T, D, Dev>>
    : mistake<!std::is_same_v<T, float> && !std::is_same_v<T, double>> {};

class moving_averages;

#define WEFT_NEEDS_OF_AVERAGE                                                                                          \
  "exponential_moving_average: pass the training effect first, then float or double variables as separate arguments: " \
  "apply(train, w, b)"

/// Computes average -= (1 - decay) * (average - value) after each update of the value
/// (tf.train.ExponentialMovingAverage; Polyak and Juditsky 1992). With num_updates the decay is min(decay, (1 + n) /
/// (10 + n)), so averages change faster at the beginning. An average starts with its variable's initial value. With
/// zero_debias it starts at 0 and is divided by the sum of its weights (Kingma and Ba 2015, section 3), so it is the
/// mean of new values only.
///
///     auto train = adam{}.minimize(loss);
///     auto averages = exponential_moving_average{.decay = 0.999}.apply(train);
/// trains, then averages the new values
/// until it ends, variables have the averages as values
struct exponential_moving_average {
  double decay = 0.999;
  update_count num_updates{};
  bool zero_debias = false;

  /// Returns an effect that runs the training and then averages the new values of the variables that it updates, or of
  /// the given variables only. A counter that the training increments includes this step. Each average is a variable of
  /// variable_kind::slot, `w/ExponentialMovingAverage`. After sparse updates, all rows are averaged. Throws
  /// invalid_argument if decay is not in [0, 1) or the training updates no variable.
  template <class... V>
  [[nodiscard]] moving_averages apply(const effect& training, const V&... variables) const;
  /// Returns an effect that averages the current values of the variables, however they are updated.
  template <class... V>
  [[nodiscard]] moving_averages apply_to_present_values(const V&... variables) const;
  /// Averages the float and double variables of a list: `apply_to_present_values(nn::parameters(net))`.
  [[nodiscard]] moving_averages apply_to_present_values(const variable_list& variables) const;

  template <class X, class... V>
    requires(!std::is_base_of_v<effect, X>)
  moving_averages apply(const X&, const V&...) const;

 private:
  moving_averages record(graph& g, const symbol* training, const sequence<symbol>& variables) const;
};

/// An effect that updates averages, with access to them.
class moving_averages : public effect {
 public:
  /// Returns the average of a variable. Throws not_found if the variable has no average here.
  template <class T, class D, class Dev>
  [[nodiscard]] variable_node<T, D, Dev> average(const variable_node<T, D, Dev>& v) const {
    return variable_node<T, D, Dev>(average_of(v.erased()));
  }

  /// A guard: while it exists, the values of variables and averages are exchanged in a session.
  class swapped;
  /// Exchanges the values by copies on each variable's device; prepared steps stay valid. Train and save only after the
  /// guard has restored the values. Throws failed_precondition, and changes nothing, if a variable has no value or the
  /// values are already exchanged.
  [[nodiscard]] swapped swapped_in(session& s) const;
  /// Returns the result of a function that runs while the averages are swapped in. The values are restored even if it
  /// throws.
  template <class F>
  auto evaluate(session& s, const F& function) const;

  /// Restarts the averages from the variables' current values in the session, for example after load_weights(). With
  /// zero_debias they restart at 0.
  void restart(session& s) const;

  /// Returns the renaming that restores averages into the variables: `restore_options{.partial = true, .rename =
  /// averages.variables_to_restore()}` (ExponentialMovingAverage.variables_to_restore).
  std::vector<std::pair<std::string, std::string>> variables_to_restore() const;

 private:
  friend struct exponential_moving_average;
  friend class swapped;
  struct pair {
    std::uint32_t variable, average;
    sequence<std::uint32_t> slots;
  };
  struct shared {
    const graph* of;
    sequence<pair> pairs;
    sequence<const session*> exchanged_in;
  };

  moving_averages() = default;
  moving_averages(effect e, std::shared_ptr<shared> state) : effect(e), state_(std::move(state)) {}
  symbol average_of(symbol variable) const;

  std::shared_ptr<shared> state_;
};

/// While it exists, the variables have the averages as values.
class moving_averages::swapped {
 public:
  swapped(const swapped&) = delete;
  swapped& operator=(const swapped&) = delete;
  ~swapped();

  /// Restores the values before the guard ends. Throws the errors of GPUs.
  void put_back();

 private:
  friend class moving_averages;
  swapped(session& s, std::shared_ptr<shared> state);
  void exchange();

  session& session_;
  std::shared_ptr<shared> state_;
  bool is_in_ = false;
};

/// Returns the renaming that restores averages into the trained variables of a graph that only evaluates: `{.partial =
/// true, .rename = variables_to_restore(g)}`. Throws not_found if the graph has no trained variables.
std::vector<std::pair<std::string, std::string>> variables_to_restore(const graph& g);

namespace detail {

inline constexpr const char* average_name = "ExponentialMovingAverage";

/// For each variable, the last value that an effect writes into it.
class written_values {
 public:
  written_values() = default;
  written_values(const graph& g, std::uint32_t effect) : last_(g.size(), graph_node::no_node) {
    sequence<std::uint32_t> pending{effect};
    sequence<char> seen(g.size(), 0);
    while (!pending.empty()) {
      const std::uint32_t n = pending.back();
      pending.pop_back();
      if (seen[n]) continue;
      seen[n] = 1;
      const node_def& def = g[n].def;
      if (is_operation<group_op>(def.op)) {
        pending.append(g[n].control.data(), g[n].control.size());
      } else if (def.op->writes) {
        std::uint32_t& last = last_[def.inputs[0].node];
        if (last == graph_node::no_node || n > last) last = n;
      }
    }
  }
  bool has(value variable) const { return variable.node < last_.size() && last_[variable.node] != graph_node::no_node; }
  /// Returns the last written value, or the variable itself if it is not written.
  value of(value variable) const { return has(variable) ? value{last_[variable.node], 0} : variable; }

 private:
  sequence<std::uint32_t> last_;
};

/// Returns the trained variables that a training effect updates.
inline sequence<symbol> updated_variables(graph& g, std::uint32_t training) {
  sequence<symbol> found;
  const written_values written(g, training);
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (is_operation<variable_op>(g[n].def.op) && kind_of(g[n].def) == variable_kind::trained && written.has({n, 0}))
      found.push_back({&g, {n, 0}});
  return found;
}

inline symbol add_average(graph& g, symbol variable, bool begins_as_0) {
  const graph::device_scope on(g, place_of_variable{g[variable.id().node].device});
  node_def c;
  c.op = &operation_of<variable_op>;
  c.outputs = {variable.info()};
  c.attributes = words_of(variable_op::attributes{variable_kind::slot});
  const std::uint32_t n = g.add(static_cast<node_def&&>(c), str_cat({g[variable.id().node].name, "/", average_name}));
  if (begins_as_0)
    g.initialize(n, {initializer::kind_type::constant, 0, 0, {}});
  else
    g.initialize_as(n, variable.id().node);
  return {&g, {n, 0}};
}

/// Returns 1 - decay for this step.
inline hyperparameter weight_of_value(graph& g, const exponential_moving_average& how, const symbol* training) {
  if (!how.num_updates.is_given()) return 1 - how.decay;
  symbol n = how.num_updates.value();
  check_same_graph("exponential_moving_average", &g, (n.is_number() ? how.num_updates.counter() : n));
  if (n.is_number()) {  // a schedule, which parameter servers can follow
    n = how.num_updates.counter();
    if (training) n = {&g, written_values(g, training->id().node).of(n.id())};
    return node<double>(record_schedule("exponential_moving_average", n,
                                        {static_cast<double>(schedule_kind::average_weight), how.decay}));
  }
  const node<double> count(n);
  return 1.0 - min((1.0 + count) / (10.0 + count), how.decay);
}

template <class Rule>
symbol record_average(graph& g, const hyperparameter& weight, symbol average, symbol value) {
  const Rule rule{weight};
  update_definition how{Rule::name, nullptr, slots_of<Rule>, &rule.weight, 1, false, &rule, 0, nullptr};
  const operation* const op = value.type() == dtype::float64 ? update_of<Rule, double>() : update_of<Rule, float>();
  if constexpr (slots_of<Rule> != 0) {
    const auto list = rule.slots();
    how.slots = list.all;
    return record_update(g, how, {{value, average}, op});
  } else {
    return record_update(g, how, {{value, average}, op});
  }
}

inline void check_averaged(graph& g, const exponential_moving_average& how, const sequence<symbol>& variables) {
  if (!(how.decay >= 0 && how.decay < 1))
    throw error(error_code::invalid_argument, "exponential_moving_average",
                "decay must be at least 0 and below 1: 0.999 averages over about 1000 updates");
  if (variables.empty())
    throw error(error_code::invalid_argument, "exponential_moving_average",
                "the effect updates no trained variable: pass the result of minimize() to apply()");
  sequence<char> seen(g.size(), 0);
  for (const symbol& v : variables) {
    check_same_graph("exponential_moving_average", &g, v);
    char& named = seen[v.id().node];
    if (named)
      throw error(error_code::invalid_argument, "exponential_moving_average",
                  {"the variable ", g[v.id().node].name, " is listed twice"});
    named = 1;
  }
}

inline void copy_value(session& s, std::uint32_t from, std::uint32_t to) {
  const plan::variable_state& of = s.state_of(from);
  const storage staged(s.variable_info(from).bytes());
  s.read_variable(from, staged.data());
  const bool has_value = of.initialized;
  s.write_variable(to, staged.data());
  s.state_of(to).initialized = has_value;
}

inline void exchange_values(session& s, std::uint32_t a, std::uint32_t b) {
  plan::variable_state &x = s.state_to_write(a), &y = s.state_to_write(b);
  const std::size_t bytes = s.variable_info(a).bytes();
  if (!x.where.gpu && !y.where.gpu) {
    const plan::variable_writer to_x = x.write(), to_y = y.write();
    std::swap_ranges(to_x.data(), to_x.data() + bytes, to_y.data());
    return;
  }
  const storage of_a(bytes), of_b(bytes);
  s.read_variable(a, of_a.data());
  s.read_variable(b, of_b.data());
  s.write_variable(a, of_b.data());
  s.write_variable(b, of_a.data());
}

inline std::vector<std::pair<std::string, std::string>> names_in_place(
    const std::vector<std::pair<std::string, std::string>>& averages_and_variables) {
  std::vector<std::pair<std::string, std::string>> table;
  for (const auto& [average, variable] : averages_and_variables) {
    table.emplace_back(average, variable);
    table.emplace_back(variable, std::string());
  }
  return table;
}

}  // namespace detail

inline symbol moving_averages::average_of(symbol variable) const {
  if (variable.builder() == state_->of)
    for (const pair& p : state_->pairs)
      if (p.variable == variable.id().node) return {variable.builder(), {p.average, 0}};
  throw error(
      error_code::not_found, "moving_averages",
      "the variable has no average: apply() averages the variables that the training updates, or those passed to it");
}

inline void moving_averages::restart(session& s) const {
  for (const pair& p : state_->pairs) {
    if (p.slots.empty()) {
      detail::copy_value(s, p.variable, p.average);
      continue;
    }
    sequence<std::uint32_t> all = p.slots;
    all.push_back(p.average);
    for (const std::uint32_t n : all) {
      const storage zeros(s.variable_info(n).bytes());
      __builtin_memset(zeros.data(), 0, zeros.bytes());
      s.write_variable(n, zeros.data());
    }
  }
}

inline std::vector<std::pair<std::string, std::string>> moving_averages::variables_to_restore() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (const pair& p : state_->pairs) names.emplace_back((*state_->of)[p.average].name, (*state_->of)[p.variable].name);
  return detail::names_in_place(names);
}

inline std::vector<std::pair<std::string, std::string>> variables_to_restore(const graph& g) {
  std::vector<std::pair<std::string, std::string>> names;
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (is_operation<variable_op>(g[n].def.op) && kind_of(g[n].def) == variable_kind::trained)
      names.emplace_back(str_cat({g[n].name, "/", detail::average_name}), g[n].name);
  if (names.empty())
    throw error(error_code::not_found, "variables_to_restore", "the graph has no trained variables to restore");
  return detail::names_in_place(names);
}

inline moving_averages::swapped moving_averages::swapped_in(session& s) const { return swapped(s, state_); }

template <class F>
auto moving_averages::evaluate(session& s, const F& function) const {
  const swapped guard = swapped_in(s);
  return function();
}

inline moving_averages::swapped::swapped(session& s, std::shared_ptr<shared> state)
    : session_(s), state_(std::move(state)) {
  if (&s.of() != state_->of)
    throw error(error_code::invalid_argument, "swapped_in", "the session and the averages belong to different graphs");
  for (const session* other : state_->exchanged_in)
    if (other == &s)
      throw error(error_code::failed_precondition, "swapped_in",
                  "the averages are already swapped in for this session: keep one guard at a time");
  for (const pair& p : state_->pairs)
    for (const std::uint32_t n : {p.variable, p.average})
      if (!s.state_of(n).initialized)
        throw error(error_code::failed_precondition, s.of()[n].name,
                    "the variable has no value to swap: train first, or restart() the averages");
  state_->exchanged_in.push_back(&s);
  is_in_ = true;
  try {
    exchange();
  } catch (...) {
    state_->exchanged_in.pop_back();
    throw;
  }
}

// Exchanges all values or none.
inline void moving_averages::swapped::exchange() {
  std::size_t done = 0;
  try {
    for (; done < state_->pairs.size(); ++done)
      detail::exchange_values(session_, state_->pairs[done].variable, state_->pairs[done].average);
  } catch (...) {
    while (done-- > 0) detail::exchange_values(session_, state_->pairs[done].variable, state_->pairs[done].average);
    throw;
  }
}

inline void moving_averages::swapped::put_back() {
  if (!std::exchange(is_in_, false)) return;
  for (std::size_t i = 0; i < state_->exchanged_in.size(); ++i)
    if (state_->exchanged_in[i] == &session_) {
      state_->exchanged_in.erase(i);
      break;
    }
  exchange();
}

inline moving_averages::swapped::~swapped() {
  try {
    put_back();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weft: the averages could not be swapped out again: %s\n", e.what());
  }
}

inline moving_averages exponential_moving_average::record(graph& g, const symbol* training,
                                                          const sequence<symbol>& variables) const {
  detail::check_averaged(g, *this, variables);
  const hyperparameter weight = detail::weight_of_value(g, *this, training);
  auto state = std::make_shared<moving_averages::shared>();
  state->of = &g.self();
  sequence<symbol> members;
  if (training) members.push_back(*training);
  const auto written = training ? detail::written_values(g, training->id().node) : detail::written_values();
  for (const symbol& v : variables) {
    const symbol average = detail::add_average(g, v, zero_debias);
    const symbol now = training ? symbol(&g, written.of(v.id())) : v;
    const symbol update = zero_debias ? detail::record_average<detail::debiased_average_rule>(g, weight, average, now)
                                      : detail::record_average<detail::moving_average_rule>(g, weight, average, now);
    // Runs after all training updates, so that these stay one kernel.
    if (training) g.add_control(update.id().node, training->id().node);
    moving_averages::pair p{v.id().node, average.id().node, {}};
    for (std::size_t k = 0; zero_debias && k < detail::slots_of<detail::debiased_average_rule>; ++k)
      p.slots.push_back(g[update.id().node].def.inputs[update_view::slot_input(k)].node);
    state->pairs.push_back(p);
    members.push_back(update);
  }
  return moving_averages(detail::record_group(g, members, "moving_averages"), std::move(state));
}

template <class... V>
moving_averages exponential_moving_average::apply(const effect& training, const V&... variables) const {
  static_assert((correct<averaged_value_is_not_a_variable<V>> && ...), WEFT_NEEDS_OF_AVERAGE);
  const symbol of = training.erased();
  auto& g = *static_cast<graph*>(of.builder());
  if constexpr (sizeof...(V) == 0)
    return record(g, &of, detail::updated_variables(g, of.id().node));
  else if constexpr ((correct<averaged_value_is_not_a_variable<V>> && ...))
    return record(g, &of, {variables.erased()...});
  else
    return record(g, &of, {});
}

template <class... V>
moving_averages exponential_moving_average::apply_to_present_values(const V&... variables) const {
  static_assert(sizeof...(V) != 0 && (correct<averaged_value_is_not_a_variable<V>> && ...), WEFT_NEEDS_OF_AVERAGE);
  const sequence<symbol> all{variables.erased()...};
  return record(*static_cast<graph*>(all[0].builder()), nullptr, all);
}

inline moving_averages exponential_moving_average::apply_to_present_values(const variable_list& variables) const {
  sequence<symbol> floating;
  for (const symbol& v : variables.erased())
    if (v.type() == dtype::float32 || v.type() == dtype::float64) floating.push_back(v);
  if (floating.empty())
    throw error(error_code::invalid_argument, "exponential_moving_average",
                "the list has no float or double variables");
  return record(graph_of(floating[0]), nullptr, floating);
}

template <class X, class... V>
  requires(!std::is_base_of_v<effect, X>)
moving_averages exponential_moving_average::apply(const X&, const V&...) const {
  static_assert(correct<average_does_not_name_the_training<X>>, WEFT_NEEDS_OF_AVERAGE);
  return moving_averages();
}

#undef WEFT_NEEDS_OF_AVERAGE

}  // namespace weft
WEFT_COLD_END

#pragma pop_macro("slots")
