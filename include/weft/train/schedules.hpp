// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <initializer_list>

#include <weft/graph/graph.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/operation.hpp>
#include <weft/train/schedule.hpp>

#include <weft/train/schedule_kernel.hpp>

/// Learning rates, or other hyperparameters, as functions of the global step. Each is a node of the graph that every
/// step evaluates. Parameter servers receive a schedule as numbers and evaluate it for the number of updates that they
/// have applied; they cannot use a value that is computed from a schedule.
///
///     auto step = global_step(g);
///     auto train = adam{.learning_rate = exponential_decay(0.01, step, 1000, 0.96)}.minimize(loss, step);
WEFT_COLD_BEGIN
namespace weft {

/// The step must be an integer scalar of a graph.
template <class X>
struct step_is_not_a_node : mistake<true> {};
template <class Expr>
struct step_is_not_an_integer : mistake<!std::is_integral_v<value_t<Expr>> || dims_t<Expr>::rank != 0> {};

/// Returns the variable that counts the graph's training steps (tf.train.get_or_create_global_step). The first call
/// creates it as `global_step`, of variable_kind::counter. Pass it to a training step, as in `minimize(loss, step)`,
/// which then adds 1 to it in each step.
[[nodiscard]] inline variable_node<std::int64_t> global_step(graph& g) {
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (is_operation<variable_op>(g[n].def.op) && kind_of(g[n].def) == variable_kind::counter &&
        g[n].name == "global_step" && g[n].def.outputs[0] == value_info{dtype::int64, shape()})
      return variable_node<std::int64_t>(symbol(&g, {n, 0}));
  return variable<std::int64_t>(g, "global_step", 0, variable_kind::counter);
}

/// Operand: the step. Literals: the schedule's numbers (train/schedule.hpp).
struct schedule_op {
  static constexpr const char* name = "schedule";
  static constexpr operation_id id{"weft.schedule"};
  static kernel* prepare(const prepare_context& p) { return new detail::schedule_kernel(p); }
};

namespace detail {

/// Throws invalid_argument if the schedule is not valid.
inline symbol record_schedule(const char* who, symbol step, const sequence<double>& numbers) {
  if (const char* problem = problem_of_schedule(numbers.data(), numbers.size()))
    throw error(error_code::invalid_argument, who, {"the schedule ", problem});
  node_def c;
  c.op = &operation_of<schedule_op>;
  c.inputs = {step.id()};
  for (const double x : numbers) c.literals.push_back(literal_bits(x));
  c.outputs = {{dtype::float64, shape()}};
  return step.builder()->record(static_cast<node_def&&>(c));
}

template <class Step>
constexpr auto find_schedule_mistake() {
  if constexpr (Expression<Step>)
    return first_mistake<value_not_in_a_graph<Step>, step_is_not_an_integer<Step>>{};
  else
    return step_is_not_a_node<Step>{};
}
template <class Step>
using schedule_mistake = decltype(find_schedule_mistake<Step>());

template <class Step>
node<double> make_schedule(const char* who, const Step& step, const sequence<double>& numbers) {
  if constexpr (correct<schedule_mistake<Step>>)
    return node<double>(record_schedule(who, let(cast<std::int64_t>(step)).erased(), numbers));
  else
    return node<double>(symbol());
}
template <class Step>
node<double> make_schedule(const char* who, const Step& step, schedule_kind kind,
                           std::initializer_list<double> numbers) {
  sequence<double> all{static_cast<double>(kind)};
  for (const double x : numbers) all.push_back(x);
  return make_schedule(who, step, all);
}

}  // namespace detail

#define WEFT_NEEDS_OF_STEP "a schedule requires an integer scalar of the graph, such as global_step(g)"

/// Returns learning_rate * decay_rate^(step / decay_steps); `staircase` rounds the exponent down
/// (tf.train.exponential_decay).
template <class Step>
[[nodiscard]] node<double> exponential_decay(double learning_rate, const Step& step, double decay_steps,
                                             double decay_rate, bool staircase = false) {
  static_assert(correct<detail::schedule_mistake<Step>>, WEFT_NEEDS_OF_STEP);
  return detail::make_schedule("exponential_decay", step, detail::schedule_kind::exponential,
                               {learning_rate, decay_steps, decay_rate, static_cast<double>(staircase)});
}

/// Returns learning_rate * exp(-decay_rate * step / decay_steps) (tf.train.natural_exp_decay).
template <class Step>
[[nodiscard]] node<double> natural_exp_decay(double learning_rate, const Step& step, double decay_steps,
                                             double decay_rate, bool staircase = false) {
  static_assert(correct<detail::schedule_mistake<Step>>, WEFT_NEEDS_OF_STEP);
  return detail::make_schedule("natural_exp_decay", step, detail::schedule_kind::natural_exponential,
                               {learning_rate, decay_steps, decay_rate, static_cast<double>(staircase)});
}

/// Returns learning_rate / (1 + decay_rate * step / decay_steps) (tf.train.inverse_time_decay).
template <class Step>
[[nodiscard]] node<double> inverse_time_decay(double learning_rate, const Step& step, double decay_steps,
                                              double decay_rate, bool staircase = false) {
  static_assert(correct<detail::schedule_mistake<Step>>, WEFT_NEEDS_OF_STEP);
  return detail::make_schedule("inverse_time_decay", step, detail::schedule_kind::inverse_time,
                               {learning_rate, decay_steps, decay_rate, static_cast<double>(staircase)});
}

/// Returns values[0] up to and including step boundaries[0], values[1] up to boundaries[1], and so on, and the last
/// value after the last boundary (tf.train.piecewise_constant). There are at most 30 boundaries. Throws
/// invalid_argument unless there is one value more than boundaries and the boundaries increase.
template <class Step>
[[nodiscard]] node<double> piecewise_constant(const Step& step, const sequence<std::int64_t>& boundaries,
                                              const sequence<double>& values) {
  static_assert(correct<detail::schedule_mistake<Step>>, WEFT_NEEDS_OF_STEP);
  if (boundaries.size() > 30 || values.size() != boundaries.size() + 1)
    throw error(error_code::invalid_argument, "piecewise_constant",
                {"got ", boundaries.size(), " boundaries and ", values.size(),
                 " values: give at most 30 boundaries, and one value more than boundaries"});
  sequence<double> all{static_cast<double>(detail::schedule_kind::piecewise), static_cast<double>(boundaries.size())};
  for (const std::int64_t b : boundaries) all.push_back(static_cast<double>(b));
  for (const double v : values) all.push_back(v);
  return detail::make_schedule("piecewise_constant", step, all);
}

/// Decays from learning_rate to end_learning_rate in decay_steps, by a power of the remaining fraction. With `cycle`,
/// decay_steps is multiplied to exceed the step, so the rate rises again (tf.train.polynomial_decay).
template <class Step>
[[nodiscard]] node<double> polynomial_decay(double learning_rate, const Step& step, double decay_steps,
                                            double end_learning_rate = 0.0001, double power = 1, bool cycle = false) {
  static_assert(correct<detail::schedule_mistake<Step>>, WEFT_NEEDS_OF_STEP);
  return detail::make_schedule("polynomial_decay", step, detail::schedule_kind::polynomial,
                               {learning_rate, decay_steps, end_learning_rate, power, static_cast<double>(cycle)});
}

/// Decays along half a cosine from learning_rate to alpha * learning_rate (tf.train.cosine_decay; Loshchilov and Hutter
/// 2017).
template <class Step>
[[nodiscard]] node<double> cosine_decay(double learning_rate, const Step& step, double decay_steps, double alpha = 0) {
  static_assert(correct<detail::schedule_mistake<Step>>, WEFT_NEEDS_OF_STEP);
  return detail::make_schedule("cosine_decay", step, detail::schedule_kind::cosine,
                               {learning_rate, decay_steps, alpha});
}

/// Repeats cosine_decay. Each period has t_mul times as many steps, t_mul being at least 1, and starts from m_mul times
/// the rate (tf.train.cosine_decay_restarts).
template <class Step>
[[nodiscard]] node<double> cosine_decay_restarts(double learning_rate, const Step& step, double first_decay_steps,
                                                 double t_mul = 2, double m_mul = 1, double alpha = 0) {
  static_assert(correct<detail::schedule_mistake<Step>>, WEFT_NEEDS_OF_STEP);
  return detail::make_schedule("cosine_decay_restarts", step, detail::schedule_kind::cosine_restarts,
                               {learning_rate, first_decay_steps, t_mul, m_mul, alpha});
}

/// Options of one_cycle.
struct one_cycle_options {
  double rising = 0.3;  ///< the fraction of steps in which the rate rises (PyTorch's pct_start)
  double div_factor = 25, final_div_factor = 1e4;
  bool linear = false;       ///< linear instead of half cosines
  bool three_phase = false;  ///< falls symmetrically to its rise, then to the end
};
/// Rises from max_learning_rate / div_factor to max_learning_rate, and falls to the first rate / final_div_factor
/// (torch.optim.lr_scheduler.OneCycleLR; Smith and Topin 2018). It stays there after total_steps.
template <class Step>
[[nodiscard]] node<double> one_cycle(double max_learning_rate, const Step& step, double total_steps,
                                     const one_cycle_options& o = {}) {
  static_assert(correct<detail::schedule_mistake<Step>>, WEFT_NEEDS_OF_STEP);
  return detail::make_schedule("one_cycle", step, detail::schedule_kind::one_cycle,
                               {max_learning_rate, total_steps, o.rising, o.div_factor, o.final_div_factor,
                                static_cast<double>(o.linear), static_cast<double>(o.three_phase)});
}

/// Warms up a schedule: in the first `steps`, rises linearly from `first` to the schedule's value after them. The
/// schedule counts all steps. Throws invalid_argument for a value that is not a schedule or already has a warm-up.
[[nodiscard]] inline node<double> linear_warmup(const node<double>& schedule, double steps, double first = 0) {
  const symbol of = schedule.erased();
  const graph& g = *static_cast<const graph*>(of.builder());
  const node_def& c = g[of.id().node].def;
  if (!is_operation<schedule_op>(c.op))
    throw error(error_code::invalid_argument, "linear_warmup",
                "pass a schedule as returned by exponential_decay() and others, not a value computed from one");
  sequence<double> all;
  for (const std::uint64_t bits : c.literals) all.push_back(detail::literal_value<double>(bits));
  if (all.size() != detail::size_of_schedule(all.data(), all.size()))
    throw error(error_code::invalid_argument, "linear_warmup", "the schedule already has a warm-up");
  for (const double x : {static_cast<double>(detail::schedule_kind::warmup), steps, first}) all.push_back(x);
  return node<double>(detail::record_schedule("linear_warmup", symbol(of.builder(), c.inputs[0]), all));
}
/// Warms up a constant rate.
template <class Step>
  requires(Expression<Step>)
[[nodiscard]] node<double> linear_warmup(double learning_rate, const Step& step, double steps, double first = 0) {
  static_assert(correct<detail::schedule_mistake<Step>>, WEFT_NEEDS_OF_STEP);
  return linear_warmup(detail::make_schedule("linear_warmup", step, detail::schedule_kind::constant, {learning_rate}),
                       steps, first);
}

// Errors for a schedule without its step, and for options with other names.
template <class...>
auto exponential_decay(...) WEFT_DELETED;  // (learning_rate, global_step(g), decay_steps, decay_rate, staircase)
template <class...>
auto natural_exp_decay(...) WEFT_DELETED;  // (learning_rate, global_step(g), decay_steps, decay_rate, staircase)
template <class...>
auto inverse_time_decay(...) WEFT_DELETED;  // (learning_rate, global_step(g), decay_steps, decay_rate, staircase)
template <class...>
auto piecewise_constant(...) WEFT_DELETED;  // (global_step(g), {100, 200}, {0.1, 0.01, 0.001})
template <class...>
auto polynomial_decay(...) WEFT_DELETED;  // (learning_rate, global_step(g), decay_steps, end_learning_rate, power)
template <class...>
auto cosine_decay(...) WEFT_DELETED;  // (learning_rate, global_step(g), decay_steps, alpha)
template <class...>
auto cosine_decay_restarts(...) WEFT_DELETED;  // (learning_rate, global_step(g), first_decay_steps, t_mul, m_mul)
template <class...>
auto one_cycle(...) WEFT_DELETED;  // one_cycle_options: rising, div_factor, final_div_factor, linear, three_phase
template <class...>
auto linear_warmup(...) WEFT_DELETED;  // (schedule, steps, first), or (learning_rate, global_step(g), steps, first)

#undef WEFT_NEEDS_OF_STEP

}  // namespace weft
WEFT_COLD_END
