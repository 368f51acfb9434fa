// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>
#include <utility>

#include <weft/graph/loop.hpp>

/// Loops in a step. Included by <weft/control_flow.hpp>.
namespace weft {

/// The maximum number of iterations: a number, or a named extent `dyn<"steps">` whose value a step knows.
class iteration_bound {
 public:
  constexpr iteration_bound() = default;
  template <class Count>
    requires std::is_integral_v<Count>
  constexpr iteration_bound(Count n) : value_(static_cast<std::int64_t>(n)) {}
  template <detail::named_extent Extent>
  constexpr iteration_bound(Extent)
      : value_(Extent::code), name_(Extent::name), formula_(detail::extent_formula(Extent())) {}

  constexpr std::int64_t value() const { return value_; }
  /// The name of the extent; null for a number.
  constexpr const char* name() const { return name_; }
  constexpr const extent_definition* formula() const { return formula_; }

 private:
  std::int64_t value_ = loop_op::unbounded;
  const char* name_ = nullptr;
  const extent_definition* formula_ = nullptr;
};

/// Options of `while_loop`.
struct loop_options {
  static constexpr std::int64_t unbounded = loop_op::unbounded;
  /// The loop stops after this many iterations, regardless of its condition. Gradients require this bound: they keep
  /// the loop variables of every iteration, so the amount of memory must be known before the step.
  iteration_bound max_iterations = {};
};

/// A loop requires at least one variable.
template <class... Operands>
struct loop_has_no_variable : mistake<true> {};

WEFT_COLD_BEGIN

namespace detail {

inline void check_loop(const iteration_bound& most, bool is_run) {
  if (!most.name() && most.value() < loop_options::unbounded)
    throw error(error_code::invalid_argument, "while_loop",
                {"max_iterations must not be negative; it is ", most.value(), ": omit it for an unbounded loop"});
  if (is_run && most.name())
    throw error(error_code::invalid_argument, "while_loop",
                {"max_iterations is the extent ", most.name(),
                 ", which is known only in a step: for tensors pass a number, such as x.extents()[0]"});
}

template <class Condition, class... Parameters, std::size_t... Index>
constexpr bool takes_first(std::index_sequence<Index...>) {
  return is_subgraph_of<Condition, std::tuple_element_t<Index, std::tuple<Parameters...>>...>;
}
/// The largest number of leading parameters that a condition accepts; 0 if there is none.
template <class Condition, class... Parameters>
constexpr std::size_t parameters_of_condition() {
  const auto find = []<std::size_t Count>(const auto& self, std::integral_constant<std::size_t, Count>) {
    if constexpr (Count == 0 || takes_first<Condition, Parameters...>(std::make_index_sequence<Count>()))
      return Count;
    else
      return self(self, std::integral_constant<std::size_t, Count - 1>());
  };
  return find(find, std::integral_constant<std::size_t, sizeof...(Parameters)>());
}
/// Wraps a condition as a function of all parameters.
template <class Condition>
struct condition_of_first {
  const Condition& condition;

  template <class... Parameters>
  auto operator()(const Parameters&... p) const {
    return call(std::make_index_sequence<parameters_of_condition<Condition, Parameters...>()>(), std::tie(p...));
  }
  template <std::size_t... Index, class Tuple>
  auto call(std::index_sequence<Index...>, const Tuple& p) const {
    return condition(std::get<Index>(p)...);
  }
};

template <class Condition, class Body, class... X, class... Operands>
auto record_while(const Condition& condition, const Body& body, const loop_options& o, std::tuple<X...> (*)(),
                  const Operands&... operands) {
  compile_loop_kernels<Operands...>();
  graph& where = graph_around(operands...);
  const iteration_bound& most = o.max_iterations;
  if (most.formula()) where.remember_extent(*most.formula());
  if (most.name()) where.remember_name(most.value(), most.name());
  const loop_op::attributes a{most.value(), (std::size_t{is_carry<X>} + ...), 0, 0, true, false, false, false, 0};
  node_def c;
  subgraph_recorder first(where, "condition"), second(where, "body");
  const auto results = std::apply(
      [&](const auto&... x) {
        ((is_invariant<X> ? void() : c.inputs.push_back(x.id())), ...);
        first.record<is_invariant<X>...>(condition_of_first<Condition>{condition}, x...);
        return second.record<is_invariant<X>...>(body, x...);
      },
      std::tuple{enter(where, operands)...});
  for (const value& v : c.inputs) c.outputs.push_back(where.info(v));
  c.subgraphs = {first.number(), second.number()};
  return outputs_as(record_loop(where, static_cast<node_def&&>(c), a), results);
}

template <class... X, class Condition, class Body, class... Values>
auto run_while(const Condition& condition, const Body& body, const loop_options& o, std::tuple<X...> (*)(),
               const Values&... values) {
  const std::int64_t most = o.max_iterations.value();
  return one_or_tuple(run_loop<X...>(
      body, std::tuple<parameter<false, Values>...>(values...),
      [&](std::int64_t n, const auto& now) {
        if (most >= 0 && n >= most) return std::int64_t{-1};
        return eval(std::apply(condition_of_first<Condition>{condition}, now)).data()[0] ? n : -1;
      },
      [](std::int64_t, std::int64_t, const auto&) {}));
}

template <bool Symbolic, class Variables, class Condition, class Body, class... Parameters>
constexpr auto find_body_mistake() {
  if constexpr (parameters_of_condition<Condition, Parameters...>() == 0 || !is_subgraph_of<Body, Parameters...>) {
    return subgraph_takes_other_parameters<Parameters...>{};
  } else {
    using result = result_of_subgraph<Body, Parameters...>;
    using mistake =
        first_mistake<predicate_is_not_a_scalar_bool<result_of_subgraph<condition_of_first<Condition>, Parameters...>>,
                      result_mistake<Symbolic, result_of_subgraph<condition_of_first<Condition>, Parameters...>>,
                      result_mistake<Symbolic, result>>;
    if constexpr (!correct<mistake>)
      return mistake{};
    else
      return loop_variables_change<typename typed_as<Variables>::type, typename typed_as<result>::type>{};
  }
}
template <class Condition, class Body, class... X>
constexpr auto find_loop_mistake() {
  if constexpr (!((Expression<X> || is_invariant<X>) && ...)) {
    return operands_are_not_expressions<X...>{};
  } else if constexpr (!(is_carry<X> || ...)) {
    return loop_has_no_variable<X...>{};
  } else {
    constexpr bool symbolic = (operand_expression<X>::symbolic || ...);
    return find_body_mistake<symbolic, carries_of<X...>, Condition, Body,
                             parameter<symbolic, operand_expression<X>>...>();
  }
}

}  // namespace detail

/// The mistake in a call of while_loop, if any.
template <class Condition, class Body, class... X>
using loop_mistake = decltype(detail::find_loop_mistake<Condition, Body, X...>());

namespace detail {

template <class X>
auto after_operand(const X& x) {
  if constexpr (Expression<X>)
    return std::tuple{after_mistake<value_t<X>, dims_t<X>>(x)};
  else
    return std::tuple{};
}
/// Returns one result for each loop variable.
template <class... X>
auto after_loop_mistake(const X&... operands) {
  const auto all = std::tuple_cat(after_operand(operands)...);
  if constexpr (std::tuple_size_v<decltype(all)> == 0)
    return after_mistake<float, dims<>>(operands...);
  else if constexpr (std::tuple_size_v<decltype(all)> == 1)
    return std::get<0>(all);
  else
    return all;
}

template <class Condition, class Body, class... X>
auto call_loop(const Condition& condition, const Body& body, const loop_options& options, const X&... operands) {
  if constexpr (!correct<loop_mistake<Condition, Body, X...>>) {
    return after_loop_mistake(operands...);
  } else {
    constexpr bool symbolic = (operand_expression<X>::symbolic || ...);
    check_loop(options.max_iterations, !symbolic);
    using operand_types = std::tuple<X...> (*)();
    if constexpr (symbolic)
      return record_while(condition, body, options, operand_types(), materialize(operand_value(operands))...);
    else
      return run_while(condition, body, options, operand_types(), materialize(operand_value(operands))...);
  }
}

}  // namespace detail

/// Calls a body on loop variables while a condition on them holds (tf.while_loop):
///
///     auto [i, y] = while_loop([](auto i) { return i < 10; },
///                              [](auto i, auto y) { return std::tuple{i + 1, y * 2}; },
///                              {.max_iterations = 10}, tensor<int>(0), x);
///
/// Both functions are called once, when the graph is built, and recorded as subgraphs. The body has one parameter for
/// each operand; the condition may accept only the first few. The condition returns a scalar bool. The body returns an
/// expression for each variable, or a std::tuple of them, with unchanged elements and extents. The results are the
/// variables' last values, or the initial values if the condition is false from the start. Other values, variables and
/// layers that the functions use become inputs by themselves; `invariant(w)`, at any position, passes one as a
/// parameter. max_iterations bounds the loop (maximum_iterations in TensorFlow). See cond for restrictions.
///
/// Gradients pass through bounded loops to variables and invariants. For this, the loop keeps the variables' values of
/// each iteration, [max_iterations, ...] each; all other values are recomputed. Over tensors, while_loop runs at once.
template <class Condition, class Body, class... X>
[[nodiscard]] auto while_loop(const Condition& condition, const Body& body, const loop_options& options,
                              const X&... operands) {
  static_assert(
      correct<loop_mistake<Condition, Body, X...>>,
      "while_loop: takes a condition that returns a scalar of bool, and a body that returns the loop variables");
  return detail::call_loop(condition, body, options, operands...);
}

/// The same without a bound.
template <class Condition, class Body, class First, class... X>
  requires(!std::is_same_v<First, loop_options>)
[[nodiscard]] auto while_loop(const Condition& condition, const Body& body, const First& first, const X&... operands) {
  static_assert(
      correct<loop_mistake<Condition, Body, First, X...>>,
      "while_loop: takes a condition that returns a scalar of bool, and a body that returns the loop variables");
  return detail::call_loop(condition, body, loop_options(), first, operands...);
}

template <class Condition, class Body>
auto while_loop(const Condition&, const Body&, detail::braces = {}) {
  static_assert(correct<operands_are_not_expressions<Body>>,
                "while_loop: pass the loop variables after the body, one by one: while_loop(condition, body, i, x)");
  return detail::after_mistake<float, dims<>>();
}

template <class...>
auto while_loop(...) WEFT_DELETED;  // (condition, body, {.max_iterations = 10}, i, x), the loop variables one by one

WEFT_COLD_END
}  // namespace weft
