#pragma once

#include <utility>

#include <weft/graph/subgraphs.hpp>

/// A loop in a step. Included by <weft/control_flow.hpp>.
namespace weft {

struct loop_options {
  static constexpr std::int64_t unbounded = -1;
  /// The loop stops after so many iterations, whatever its condition says. A gradient needs it: it keeps the loop
  /// variables of every iteration, in memory that is known before the step.
  std::int64_t max_iterations = unbounded;
};

/// What each iteration reads, and none changes: `invariant(weights)`.
template <Expression X>
struct loop_invariant {
  X value;
};
/// An operand of while_loop that its functions are given as it is, and that the body does not return. Its gradient is
/// the sum of those of all iterations.
template <Expression X>
[[nodiscard]] auto invariant(const X& x) {
  return loop_invariant<X>{x};
}

/// A body returns the loop variables in their order, of the same elements and extents.
template <class Variables, class Results>
struct loop_variables_change : mistake<!std::is_same_v<Variables, Results>> {};

/// A loop is over at least one variable.
template <class... Operands>
struct loop_has_no_variable : mistake<true> {};

WEFT_COLD_BEGIN

/// A loop with variables, rows that an iteration reads and writes, each its own, and invariants.
///
/// inputs: where there is no condition, the number of iterations; the variables' first values; rows to read,
/// [max_iterations, ...]; invariants. outputs: the variables' last values; rows that were written; if they are kept,
/// the variables' values before each iteration, [max_iterations, ...]; where there is a condition, the number of
/// iterations. Rows of iterations that did not run hold anything.
///
/// subgraphs: the condition, of variables and invariants, where there is one; then the body, of variables, rows to read
/// and invariants, which yields the variables and the rows to write.
///
/// So the gradient of a loop is one, in the other direction, without a condition: its variables are the gradients of
/// variables and the sums of those of invariants; it reads the rows that the first one kept.
struct loop_op {
  static constexpr const char* name = "while_loop";
  struct attributes {
    attribute<std::int64_t> max_iterations;  ///< negative: none
    attribute<std::size_t> variables, rows_read, rows_written;
    attribute<bool> conditional, kept, backwards;
  };

  static kernel* prepare(const prepare_context&, const attributes&);
  static std::size_t workspace_bytes(const prepare_context&);
  static bool optional(const node_def& c, std::uint32_t output) {
    const auto a = attributes_of<loop_op>(c);
    return output >= a.variables + a.rows_written;
  }
  static void gradient(gradient_context&, const attributes&);
};

// It has kernels for GPUs in every file: these launch those of their subgraphs.
template <>
inline constinit gpu::preparation gpu::preparation_of<loop_op>{
    nullptr, [](const prepare_context& p, gpu::device&) { return loop_op::prepare(p, attributes_of<loop_op>(p.c)); }};

namespace detail {

inline std::size_t whole_lines(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// One row of these.
inline value_info row_of(const value_info& rows) {
  value_info row{rows.type, {}};
  for (std::size_t i = 1; i < rows.extents.rank; ++i) row.extents.push_back(rows.extents[i]);
  return row;
}
inline value_info rows_of(std::int64_t count, const value_info& row) {
  value_info rows{row.type, {}};
  rows.extents.push_back(count);
  for (std::size_t i = 0; i < row.extents.rank; ++i) rows.extents.push_back(row.extents[i]);
  return rows;
}

/// GPUs' kernels take 16 bytes at a time. Of rows that lie otherwise they have a copy, in the loop's own memory.
inline bool is_row_staged(std::size_t bytes) { return bytes % 16 != 0; }

class loop_kernel_with_subgraphs final : public kernel_with_subgraphs {
 public:
  loop_kernel_with_subgraphs(const prepare_context& p, const loop_op::attributes& a)
      : kernel_with_subgraphs(p), a_(a), first_(a.conditional ? 0 : 1) {
    for (std::size_t j = 0; j < a.variables; ++j) bytes_.push_back(p.inputs[first_ + j].bytes());
    for (std::size_t r = 0; r < a.rows_read; ++r)
      read_bytes_.push_back(row_of(p.inputs[first_ + a.variables + r]).bytes());
    for (std::size_t r = 0; r < a.rows_written; ++r)
      written_bytes_.push_back(row_of(p.outputs[a.variables + r]).bytes());
    now_.resize(a.variables);
    results_.resize(a.variables + a.rows_written);
  }

  void run(const kernel_context& f) override {
    const std::int64_t bound = a_.max_iterations, most = bound < 0 ? INT64_MAX : bound;
    std::int64_t limit = a_.conditional ? most : read<std::int64_t>(f, f.buffers[inputs_[0]]);
    if (limit > most) limit = most;
    for (std::size_t j = 0; j < a_.variables; ++j) now_[j] = f.buffers[inputs_[first_ + j]];
    std::int64_t n = 0;
    for (; n < limit && (!a_.conditional || goes_on(f)); ++n)
      iterate(f, n % 2 == 0, static_cast<std::size_t>(a_.backwards ? limit - 1 - n : n));
    for (std::size_t j = 0; j < a_.variables; ++j)
      if (std::byte* const to = f.buffers[outputs_[j]]; now_[j] != to) copy(f, to, now_[j], bytes_[j]);
    if (!a_.conditional) return;
    iterations_ = n;  // stays where a GPU copies it from until the host has waited for it
    if (std::byte* const to = f.buffers[outputs_.back()])
      copy(f, to, reinterpret_cast<const std::byte*>(&iterations_), sizeof iterations_);
  }
  std::string describe() const override {
    std::string text = str_cat({"loop of ", bytes_.size(), " variables"});
    if (const std::int64_t bound = a_.max_iterations; bound >= 0) append(text, {", at most ", bound, " times"});
    if (a_.backwards) text += ", backwards";
    return text;
  }

 private:
  void add_invariants(const kernel_context& f) {
    for (std::size_t i = first_ + a_.variables + a_.rows_read; i < inputs_.size(); ++i)
      parameters_.push_back(f.buffers[inputs_[i]]);
  }

  bool goes_on(const kernel_context& f) {
    parameters_.clear();
    for (std::byte* const at : now_) parameters_.push_back(at);
    add_invariants(f);
    std::byte* const decision = memory(f);
    run_subgraph(f, 0, parameters_.data(), &decision);
    return read<bool>(f, decision);
  }

  /// Values of variables go to and fro between the outputs and memory of the kernel's own.
  void iterate(const kernel_context& f, bool to_outputs, std::size_t row) {
    parameters_.clear();
    for (std::size_t j = 0; j < a_.variables; ++j) {
      if (a_.kept)
        if (std::byte* const rows = f.buffers[outputs_[a_.variables + a_.rows_written + j]])
          copy(f, rows + row * bytes_[j], now_[j], bytes_[j]);
      parameters_.push_back(now_[j]);
    }
    std::byte* own = memory(f) + alignment;
    const auto take = [&](std::size_t bytes) { return std::exchange(own, own + whole_lines(bytes)); };
    const auto staged = [&](std::byte* at, std::size_t bytes) {
      return f.queue && is_row_staged(bytes) ? take(bytes) : at;
    };
    for (std::size_t r = 0; r < a_.rows_read; ++r) {
      std::byte* const from = f.buffers[inputs_[first_ + a_.variables + r]] + row * read_bytes_[r];
      parameters_.push_back(staged(from, read_bytes_[r]));
      if (parameters_.back() != from) copy(f, parameters_.back(), from, read_bytes_[r]);
    }
    add_invariants(f);
    for (std::size_t j = 0; j < a_.variables; ++j) {
      std::byte* const mine = take(bytes_[j]);
      results_[j] = to_outputs ? f.buffers[outputs_[j]] : mine;
    }
    const auto written = [&](std::size_t r) { return f.buffers[outputs_[a_.variables + r]] + row * written_bytes_[r]; };
    for (std::size_t r = 0; r < a_.rows_written; ++r)
      results_[a_.variables + r] = staged(written(r), written_bytes_[r]);
    run_subgraph(f, a_.conditional ? 1 : 0, parameters_.data(), results_.data());
    for (std::size_t r = 0; r < a_.rows_written; ++r)
      if (std::byte* const from = results_[a_.variables + r]; from != written(r))
        copy(f, written(r), from, written_bytes_[r]);
    for (std::size_t j = 0; j < a_.variables; ++j) now_[j] = results_[j];
  }

  loop_op::attributes a_;
  std::size_t first_;  // input that is a variable
  sequence<std::size_t> bytes_, read_bytes_, written_bytes_;
  sequence<std::byte*> now_, parameters_, results_;
  std::int64_t iterations_ = 0;
};

/// Whether rows of a variable can be kept: it has an axis left, and what is known of their extents fits any memory.
inline bool can_be_kept(const value_info& variable, std::int64_t count) {
  bool fits = variable.extents.rank < max_rank;
  std::int64_t elements = 8;
  fits = fits && !__builtin_mul_overflow(elements, count, &elements);
  for (std::size_t i = 0; i < variable.extents.rank; ++i)
    if (variable.extents[i] > 0) fits = fits && !__builtin_mul_overflow(elements, variable.extents[i], &elements);
  return fits;
}

/// A loop, of subgraphs that are written.
inline symbol record_loop(graph& where, node_def c, loop_op::attributes a) {
  const std::size_t first = a.conditional ? 0 : 1;
  a.kept = a.max_iterations >= 0;
  sequence<value_info> kept;
  for (std::size_t j = 0; j < a.variables; ++j) {
    const value_info& variable = where.info(c.inputs[first + j]);
    a.kept = a.kept && can_be_kept(variable, a.max_iterations);
    if (a.kept) kept.push_back(rows_of(a.max_iterations, variable));
  }
  if (a.kept) c.outputs.append(kept.data(), kept.size());
  if (a.conditional) c.outputs.push_back({dtype::int64, {}});
  c.op = &operation_of<loop_op>;
  c.attributes = words_of(a);
  return where.record(static_cast<node_def&&>(c));
}

}  // namespace detail

inline kernel* loop_op::prepare(const prepare_context& p, const attributes& a) {
  return new detail::loop_kernel_with_subgraphs(p, a);
}
inline std::size_t loop_op::workspace_bytes(const prepare_context& p) {
  const auto a = attributes_of<loop_op>(p.c);
  std::size_t bytes = alignment;  // what the condition says
  for (std::size_t j = 0; j < a.variables; ++j) bytes += detail::whole_lines(p.outputs[j].bytes());
  const auto add_row = [&](const value_info& rows) {
    const std::size_t row = detail::row_of(rows).bytes();
    if (detail::is_row_staged(row)) bytes += detail::whole_lines(row);
  };
  for (std::size_t r = 0; r < a.rows_read; ++r) add_row(p.inputs[(a.conditional ? 0 : 1) + a.variables + r]);
  for (std::size_t r = 0; r < a.rows_written; ++r) add_row(p.outputs[a.variables + r]);
  return bytes;
}

inline void loop_op::gradient(gradient_context& g, const attributes& a) {
  graph& where = *static_cast<graph*>(g.output(0).builder());
  if (!a.kept)
    throw error(error_code::failed_precondition, name,
                a.max_iterations < 0
                    ? "its gradient keeps the loop variables of every iteration, and needs to know how many these are "
                      "at most: while_loop(condition, body, {.max_iterations = n}, ...)"
                    : "its gradient keeps the loop variables of every iteration, and these are more than any memory "
                      "holds, or have 8 axes already");
  const std::size_t first = a.conditional ? 0 : 1, rows = first + a.variables, invariants = rows + a.rows_read,
                    first_kept = a.variables + a.rows_written;
  node_def c;
  c.subgraphs = {where.add_subgraph("gradient")};
  subgraph& made = where.subgraph_at(c.subgraphs[0]);
  const subgraph& body = where.subgraph_at(g.c.subgraphs.back());

  // What an iteration computes, and its gradient.
  sequence<symbol> operands;
  for (std::size_t i = first; i < g.c.inputs.size(); ++i) {
    const value_info& info = g.input(i).info();
    operands.push_back(detail::add_parameter(made, i >= rows && i < invariants ? detail::row_of(info) : info));
  }
  const sequence<symbol> results = detail::copy_subgraph(body, made.nodes, operands);
  const auto parameter_like = [&](std::size_t output) {
    const value_info& info = g.c.outputs[output];
    return detail::add_parameter(made, output < a.variables ? info : detail::row_of(info));
  };
  sequence<symbol> from, upstream, wanted, of_kept;
  for (std::size_t o = 0; o < first_kept; ++o) {
    if (o < a.variables ? !is_floating(g.c.outputs[o].type) : !g.has_upstream(o)) continue;
    from.push_back(results[o]);
    upstream.push_back(parameter_like(o));
  }
  for (std::size_t j = 0; j < a.variables; ++j)
    of_kept.push_back(g.has_upstream(first_kept + j) ? parameter_like(first_kept + j) : symbol());
  const auto is_wanted = [&](std::size_t i) { return i < rows ? is_floating(g.input(i).type()) : g.needs_gradient(i); };
  for (std::size_t i = first; i < g.c.inputs.size(); ++i)
    if (is_wanted(i)) wanted.push_back(operands[i - first]);
  const sequence<symbol> gradients = made.nodes.differentiate(from, upstream, wanted);

  // The loop of that: variables, then rows, then invariants, and which output is which input's gradient.
  attributes back{a.max_iterations, 0, 0, 0, false, false, !a.backwards};
  c.inputs = {(a.conditional ? g.output(g.c.outputs.size() - 1) : g.input(0)).id()};
  made.parameters.clear();
  sequence<value> written;
  sequence<value_info> written_infos;
  sequence<std::size_t> variable_of, row_of;
  std::size_t next = 0, arrived = 0;
  for (std::size_t i = first; i < g.c.inputs.size(); ++i) {
    if (!is_wanted(i)) continue;
    symbol d = gradients[next++];
    const value_info& info = g.input(i).info();
    if (i < rows) {
      const std::size_t j = i - first;
      if (!of_kept[j].is_number()) d = d.is_number() ? of_kept[j] : d + of_kept[j];
      made.parameters.push_back(upstream[arrived++].id());
      c.inputs.push_back((g.has_upstream(j) ? g.upstream(j) : detail::record_fill(where, 0, info)).id());
    } else if (i >= invariants) {
      if (d.is_number()) continue;
      const symbol sum = detail::add_parameter(made, info);
      d = sum + d;
      c.inputs.push_back(detail::record_fill(where, 0, info).id());
    }
    if (d.is_number()) d = detail::record_fill(made.nodes, 0, operands[i - first].info());
    if (i >= rows && i < invariants) {
      written.push_back(d.id());
      written_infos.push_back(info);
      row_of.push_back(i);
    } else {
      made.results.push_back(d.id());
      c.outputs.push_back(info);
      variable_of.push_back(i);
    }
  }
  back.variables = variable_of.size();
  back.rows_written = row_of.size();
  made.results.append(written.data(), written.size());
  c.outputs.append(written_infos.data(), written_infos.size());
  const sequence<char> needed = detail::nodes_reached(made);
  const auto give = [&](symbol parameter, symbol from_outside) {
    if (parameter.is_number() || !needed[parameter.id().node]) return false;
    made.parameters.push_back(parameter.id());
    c.inputs.push_back(from_outside.id());
    return true;
  };
  std::size_t read = 0;
  for (std::size_t j = 0; j < a.variables; ++j) read += give(operands[j], g.output(first_kept + j));
  for (std::size_t i = rows; i < invariants; ++i) read += give(operands[i - first], g.input(i));
  for (std::size_t o = a.variables; o < first_kept; ++o)
    if (g.has_upstream(o)) read += give(upstream[arrived++], g.upstream(o));
  for (std::size_t j = 0; j < a.variables; ++j) read += give(of_kept[j], g.upstream(first_kept + j));
  back.rows_read = read;
  for (std::size_t i = invariants; i < g.c.inputs.size(); ++i) give(operands[i - first], g.input(i));

  const symbol result = detail::record_loop(where, static_cast<node_def&&>(c), back);
  std::uint32_t output = 0;
  for (const std::size_t i : variable_of) g.set_gradient(i, detail::output_of(result, output++));
  for (const std::size_t i : row_of) g.set_gradient(i, detail::output_of(result, output++));
}

namespace detail {

template <class X>
inline constexpr bool is_invariant = false;
template <class X>
inline constexpr bool is_invariant<loop_invariant<X>> = true;

/// The expression of an operand.
template <class X>
const auto& loop_operand(const X& x) {
  if constexpr (is_invariant<X>)
    return x.value;
  else
    return x;
}
template <class X>
using loop_operand_t = std::remove_cvref_t<decltype(loop_operand(std::declval<const X&>()))>;
template <class X>
constexpr bool is_loop_operand() {
  return is_invariant<X> || Expression<X>;
}

/// Those that are variables, as a tuple.
template <class X, class V>
auto if_variable(const V& v) {
  if constexpr (is_invariant<X>)
    return std::tuple<>();
  else
    return std::tuple<V>(v);
}

/// How many of the operands before one are variables.
template <class... X>
constexpr std::size_t variables_before(std::size_t operand) {
  constexpr bool invariant[] = {is_invariant<X>...};
  std::size_t before = 0;
  for (std::size_t i = 0; i < operand; ++i) before += !invariant[i];
  return before;
}

inline void check_loop(const loop_options& o) {
  if (o.max_iterations < loop_options::unbounded)
    throw error(error_code::invalid_argument, "while_loop",
                {"max_iterations is ", o.max_iterations, ": it is not negative; without it a loop has no bound"});
}

template <class Condition, class Body, class... X, class... Operands>
auto record_while(const Condition& condition, const Body& body, const loop_options& o, std::tuple<X...> (*)(),
                  const Operands&... operands) {
  graph& where = graph_around(operands...);
  constexpr bool invariant[] = {is_invariant<X>...};
  const auto variables_first = [&](const sequence<value>& all) {
    sequence<value> ordered;
    for (const bool wanted : {false, true})
      for (std::size_t i = 0; i < all.size(); ++i)
        if (invariant[i] == wanted) ordered.push_back(all[i]);
    return ordered;
  };
  loop_op::attributes a{o.max_iterations, (std::size_t{!is_invariant<X>} + ...), 0, 0, true, false, false};
  node_def c;
  subgraph_recorder first(where, "condition"), second(where, "body");
  const auto results = std::apply(
      [&](const auto&... x) {
        c.inputs = variables_first({x.id()...});
        first.record(condition, x...);
        return second.record(body, x...);
      },
      std::tuple{enter(where, operands)...});
  for (subgraph* const b : {&first.made(), &second.made()}) b->parameters = variables_first(b->parameters);
  for (std::size_t j = 0; j < a.variables; ++j) c.outputs.push_back(where.info(c.inputs[j]));
  c.subgraphs = {first.number(), second.number()};
  return outputs_as(record_loop(where, static_cast<node_def&&>(c), a), results);
}

template <class... X, std::size_t... Index, class Condition, class Body>
auto run_while(const Condition& condition, const Body& body, const loop_options& o, std::tuple<X...> (*)(),
               std::index_sequence<Index...>, std::tuple<parameter<false, loop_operand_t<X>>...> now) {
  const auto run = [](const auto& x) { return eval(x); };
  for (std::int64_t n = 0; o.max_iterations < 0 || n < o.max_iterations; ++n) {
    if (!eval(std::apply(condition, now)).data()[0]) break;
    const auto next = each_result(std::apply(body, now), run);
    const auto assign = [&]<std::size_t At, class Operand>(std::integral_constant<std::size_t, At>, const Operand*) {
      if constexpr (is_invariant<Operand>)
        return;
      else if constexpr (Expression<std::remove_cvref_t<decltype(next)>>)
        std::get<At>(now) = next;
      else
        std::get<At>(now) = std::get<variables_before<X...>(At)>(next);
    };
    (assign(std::integral_constant<std::size_t, Index>(), static_cast<const X*>(nullptr)), ...);
  }
  auto variables = std::tuple_cat(if_variable<X>(std::get<Index>(now))...);
  if constexpr (std::tuple_size_v<decltype(variables)> == 1)
    return std::get<0>(variables);
  else
    return variables;
}

template <class Variables, class Condition, class Body, class... Parameters>
constexpr auto find_body_mistake() {
  if constexpr (!is_subgraph_of<Condition, Parameters...> || !is_subgraph_of<Body, Parameters...>) {
    return subgraph_takes_other_parameters<Parameters...>{};
  } else {
    using result = result_of_subgraph<Body, Parameters...>;
    using mistake = first_mistake<predicate_is_not_a_scalar_bool<result_of_subgraph<Condition, Parameters...>>,
                                  result_is_not_an_expression<result>>;
    if constexpr (!correct<mistake>)
      return mistake{};
    else
      return loop_variables_change<typename typed_as<Variables>::type, typename typed_as<result>::type>{};
  }
}
template <class Condition, class Body, class... X>
constexpr auto find_loop_mistake() {
  if constexpr (!(is_loop_operand<X>() && ...)) {
    return operands_are_not_expressions<X...>{};
  } else if constexpr ((is_invariant<X> && ...)) {
    return loop_has_no_variable<X...>{};
  } else {
    constexpr bool symbolic = (loop_operand_t<X>::symbolic || ...);
    return find_body_mistake<decltype(std::tuple_cat(if_variable<X>(std::declval<loop_operand_t<X>>())...)), Condition,
                             Body, parameter<symbolic, loop_operand_t<X>>...>();
  }
}

}  // namespace detail

/// What is wrong with a call of while_loop, if anything is.
template <class Condition, class Body, class... X>
using loop_mistake = decltype(detail::find_loop_mistake<Condition, Body, X...>());

namespace detail {

template <class Condition, class Body, class... X>
auto call_loop(const Condition& condition, const Body& body, const loop_options& options, const X&... operands) {
  if constexpr (!correct<loop_mistake<Condition, Body, X...>>) {
    return after_mistake<float, dims<>>(operands...);
  } else {
    check_loop(options);
    using operand_types = std::tuple<X...> (*)();
    if constexpr ((loop_operand_t<X>::symbolic || ...))
      return record_while(condition, body, options, operand_types(), materialize(loop_operand(operands))...);
    else
      return run_while(condition, body, options, operand_types(), std::index_sequence_for<X...>(),
                       std::tuple{materialize(loop_operand(operands))...});
  }
}

}  // namespace detail

/// Calls a body on loop variables as long as a condition on them holds (tf.while_loop):
///
///     auto [i, y] = while_loop([](auto i, auto) { return i < 10; },
///                              [](auto i, auto y) { return std::tuple{i + 1, y * 2}; },
///                              {.max_iterations = 10}, tensor<int>(0), x);
///
/// Both functions are called once, when the graph is written, with a parameter for each operand, and recorded as graphs
/// of their own. The condition returns a scalar of bool, the body an expression for each variable, or a std::tuple of
/// them, of the variable's elements and extents; the loop's results are the variables' last values, those of the first
/// kind if the condition does not hold at all. What else they read of the graph is passed as `invariant(w)`. A bound
/// stops the loop (tf's maximum_iterations). For what subgraphs cannot do see cond.
///
/// Gradients pass through loops with a bound, to variables and invariants. The values of variables that they need are
/// kept, of each iteration: [max_iterations, ...] of each; all else is computed again. Over tensors it runs at once.
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
    [[nodiscard]] auto while_loop(const Condition& condition, const Body& body, const First& first,
                                  const X&... operands) {
  static_assert(
      correct<loop_mistake<Condition, Body, First, X...>>,
      "while_loop: takes a condition that returns a scalar of bool, and a body that returns the loop variables");
  return detail::call_loop(condition, body, loop_options(), first, operands...);
}

WEFT_COLD_END
}  // namespace weft
