// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/graph/subgraphs.hpp>

/// Conditional execution in a step. Included by <weft/control_flow.hpp>.
namespace weft {

/// Both branches must return the same number of values, with equal element types and extents.
template <class Then, class Else>
struct branches_differ : mistake<!std::is_same_v<Then, Else>> {};

WEFT_COLD_BEGIN

/// Inputs: the predicate, then the operands of both subgraphs. Runs the first subgraph if the predicate is true,
/// otherwise the second.
struct cond_op {
  static constexpr const char* name = "cond";
  static kernel* prepare(const prepare_context&);
  static void gradient(gradient_context&);
};

namespace detail {

class cond_kernel final : public kernel_with_subgraphs {
 public:
  explicit cond_kernel(const prepare_context& p)
      : kernel_with_subgraphs(p), parameters_(inputs_.size() - 1), results_(outputs_.size()) {}

  void run(const kernel_context& f) override {
    const bool taken = read<bool>(f, f.buffers[inputs_[0]]);
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i] = f.buffers[inputs_[i + 1]];
    for (std::size_t i = 0; i < results_.size(); ++i) results_[i] = f.buffers[outputs_[i]];
    run_subgraph(f, taken ? 0 : 1, parameters_.data(), results_.data());
  }
  std::string describe() const override {
    return str_cat({"cond of ", parameters_.size(), parameters_.size() == 1 ? " operand" : " operands"});
  }

 private:
  sequence<std::byte*> parameters_, results_;
};

}  // namespace detail

inline kernel* cond_op::prepare(const prepare_context& p) { return new detail::cond_kernel(p); }

// Unlike other GPU kernels, this one is available in every source file: it only launches the kernels of its subgraphs.
template <>
inline constinit gpu::preparation gpu::preparation_of<cond_op>{
    nullptr, [](const prepare_context& p, gpu::device&) { return cond_op::prepare(p); }};

/// The gradient is a cond with one subgraph for each branch, which recomputes the values of the branch and then
/// computes its gradient.
inline void cond_op::gradient(gradient_context& g) {
  graph& where = *static_cast<graph*>(g.input(0).builder());
  node_def c;
  c.op = &operation_of<cond_op>;
  c.inputs = g.node.inputs;
  for (std::uint32_t o = 0; o < g.node.outputs.size(); ++o)
    if (g.has_upstream(o)) c.inputs.push_back(g.upstream(o).id());
  sequence<symbol> gradients[2];
  for (std::size_t k = 0; k < 2; ++k) {
    c.subgraphs.push_back(where.add_subgraph(where.subgraph_at(g.node.subgraphs[k]).name));
    subgraph& made = where.subgraph_at(c.subgraphs[k]);
    sequence<symbol> operands, wanted, from, upstream;
    for (std::size_t i = 1; i < g.node.inputs.size(); ++i) {
      operands.push_back(detail::add_parameter(made, g.input(i).info()));
      if (g.needs_gradient(i)) wanted.push_back(operands.back());
    }
    const sequence<symbol> results =
        detail::copy_subgraph(where.subgraph_at(g.node.subgraphs[k]), made.nodes, operands);
    for (std::uint32_t o = 0; o < results.size(); ++o)
      if (g.has_upstream(o)) {
        from.push_back(results[o]);
        upstream.push_back(detail::add_parameter(made, g.node.outputs[o]));
      }
    gradients[k] = made.nodes.differentiate(from, upstream, wanted);
  }
  sequence<std::size_t> reached;  // operands for which at least one branch has a gradient
  for (std::size_t i = 1, w = 0; i < g.node.inputs.size(); ++i) {
    if (!g.needs_gradient(i)) continue;
    if (!gradients[0][w].is_number() || !gradients[1][w].is_number()) {
      reached.push_back(i);
      c.outputs.push_back(g.input(i).info());
      for (std::size_t k = 0; k < 2; ++k) {
        subgraph& made = where.subgraph_at(c.subgraphs[k]);
        const symbol d = gradients[k][w];
        made.results.push_back((d.is_number() ? fill(made.nodes, g.input(i).info(), 0) : d).id());
      }
    }
    ++w;
  }
  if (reached.empty()) return;
  // Drops the operands that neither gradient subgraph reads.
  subgraph &then = where.subgraph_at(c.subgraphs[0]), &otherwise = where.subgraph_at(c.subgraphs[1]);
  const sequence<char> first_needs = detail::nodes_reached(then), second_needs = detail::nodes_reached(otherwise);
  for (std::size_t i = then.parameters.size(); i-- > 0;) {
    if (first_needs[then.parameters[i].node] || second_needs[otherwise.parameters[i].node]) continue;
    then.parameters.erase(i);
    otherwise.parameters.erase(i);
    c.inputs.erase(i + 1);
  }
  const symbol first = where.record(static_cast<node_def&&>(c));
  for (std::uint32_t o = 0; o < reached.size(); ++o) g.set_gradient(reached[o], first.output(o));
}

namespace detail {

template <class Predicate, class Then, class Else, class... X>
auto record_cond(const Predicate& p, const Then& then, const Else& otherwise, const X&... operands) {
  graph& where = graph_around(p, operands...);
  const auto predicate = enter(where, p);
  const auto entered = std::tuple{enter(where, operands)...};
  node_def c;
  c.op = &operation_of<cond_op>;
  c.inputs = {predicate.id()};
  subgraph_recorder first(where, "then"), second(where, "else");
  const auto results = std::apply(
      [&](const auto&... x) {
        (c.inputs.push_back(x.id()), ...);
        const auto r = first.record(then, x...);
        second.record(otherwise, x...);
        return r;
      },
      entered);
  for (const value& r : first.made().results) c.outputs.push_back(first.made().nodes.info(r));
  c.subgraphs = {first.number(), second.number()};
  if (draws(first.made()) || draws(second.made())) {
    c.inputs.push_back(record_random_position(where).id());
    for (subgraph* const b : {&first.made(), &second.made()})
      b->parameters.push_back(record_random_position(b->nodes).id());
  }
  return outputs_as(where.record(static_cast<node_def&&>(c)), results);
}

template <class Then, class Else, class... Parameters>
constexpr auto find_branch_mistake() {
  if constexpr (!is_subgraph_of<Then, Parameters...> || !is_subgraph_of<Else, Parameters...>) {
    return subgraph_takes_other_parameters<Parameters...>{};
  } else {
    using then_result = result_of_subgraph<Then, Parameters...>;
    using else_result = result_of_subgraph<Else, Parameters...>;
    using mistake = first_mistake<result_is_not_an_expression<then_result>, result_is_not_an_expression<else_result>>;
    if constexpr (!correct<mistake>)
      return mistake{};
    else
      return branches_differ<typename typed_as<then_result>::type, typename typed_as<else_result>::type>{};
  }
}
template <class Predicate, class Then, class Else, class... X>
constexpr auto find_cond_mistake() {
  using mistake = first_mistake<predicate_is_not_a_scalar_bool<Predicate>, operands_are_not_expressions<X...>>;
  if constexpr (!correct<mistake>)
    return mistake{};
  else
    return find_branch_mistake<Then, Else, parameter<Predicate::symbolic || (X::symbolic || ...), X>...>();
}

}  // namespace detail

/// cond requires a second branch.
template <class Then>
struct branch_is_missing : mistake<true> {};

/// The mistake in a call of cond, if any.
template <class Predicate, class Then, class Else, class... X>
using cond_mistake = decltype(detail::find_cond_mistake<Predicate, Then, Else, X...>());

/// Applies one of two functions to the operands, depending on a scalar bool (tf.cond):
///
///     auto y = cond(mean(x) > 0, [](auto x) { return x; }, [](auto x) { return -x; }, x);
///
/// Each function is called once, when the graph is built, with a parameter for each operand, and is recorded as a
/// subgraph. A step runs only the branch that the predicate selects. Both functions return an expression or a
/// std::tuple of expressions, with equal element types and extents, and cond returns the same. A function receives all
/// graph values that it reads as operands. It must not write variables and cannot contain device scopes: it runs on the
/// device of the cond node. The predicate is copied to the host. Gradients pass through the selected branch and
/// recompute its values. Over tensors, cond calls one of the functions at once.
template <class Predicate, class Then, class Else, class... X>
[[nodiscard]] auto cond(const Predicate& predicate, const Then& then, const Else& otherwise, const X&... operands) {
  using mistake = cond_mistake<Predicate, Then, Else, X...>;
  static_assert(
      correct<mistake>,
      "cond: takes a scalar of bool, and two functions that return expressions of the same elements and extents");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<float, dims<>>(predicate);
  } else if constexpr (Predicate::symbolic || (X::symbolic || ...)) {
    return detail::record_cond(materialize(predicate), then, otherwise, materialize(operands)...);
  } else {
    const bool taken = eval(predicate).data()[0];
    const auto run = [](const auto& x) { return eval(x); };
    return taken ? detail::each_result(then(materialize(operands)...), run)
                 : detail::each_result(otherwise(materialize(operands)...), run);
  }
}

template <class Predicate, class Then>
auto cond(const Predicate& predicate, const Then&) {
  static_assert(correct<branch_is_missing<Then>>,
                "cond: takes two functions: cond(p, [](auto x) { return -x; }, [](auto x) { return x; }, x)");
  return detail::after_mistake<float, dims<>>(predicate);
}

WEFT_COLD_END
}  // namespace weft
