// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>
#include <utility>

#include <weft/graph/subgraphs.hpp>

/// Conditional execution in a step. Included by <weft/control_flow.hpp>.
namespace weft {

/// All branches must return the same number of values, with equal element types and extents.
template <class Then, class Else>
struct branches_differ : mistake<!std::is_same_v<Then, Else>> {};

/// The index must be a scalar of std::int32_t or std::int64_t.
template <class Index>
struct index_is_not_a_scalar_integer : mistake<true> {};
template <Expression Index>
struct index_is_not_a_scalar_integer<Index>
    : mistake<dims_t<Index>::rank != 0 ||
              !(std::is_same_v<value_t<Index>, std::int32_t> || std::is_same_v<value_t<Index>, std::int64_t>)> {};

WEFT_COLD_BEGIN

/// Inputs: the number of a branch, or a predicate; then the operands of all subgraphs. Runs the subgraph of this
/// number, or the last one if there is none; for a predicate, the first if it is true, otherwise the second.
struct cond_op {
  static constexpr const char* name = "cond";
  static constexpr const char* onnx = "cond()";
  static kernel* prepare(const prepare_context&);
  static void gradient(gradient_context&);
};

namespace detail {

inline std::size_t branch_of(std::int64_t index, std::size_t branches) {
  const auto count = static_cast<std::int64_t>(branches);
  return static_cast<std::size_t>(index < 0 || index >= count ? count - 1 : index);
}

class cond_kernel final : public kernel_with_subgraphs {
 public:
  explicit cond_kernel(const prepare_context& p)
      : kernel_with_subgraphs(p),
        index_(p.inputs[0].type),
        parameters_(inputs_.size() - 1),
        results_(outputs_.size()) {}

  void run(const kernel_context& f) override {
    const std::byte* const from = f.buffers[inputs_[0]];
    const std::int64_t index = index_ == dtype::boolean ? !read<bool>(f, from)
                               : index_ == dtype::int32 ? read<std::int32_t>(f, from)
                                                        : read<std::int64_t>(f, from);
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i] = f.buffers[inputs_[i + 1]];
    for (std::size_t i = 0; i < results_.size(); ++i) results_[i] = f.buffers[outputs_[i]];
    run_subgraph(f, branch_of(index, subgraphs_.all.size()), parameters_.data(), results_.data());
  }
  std::string describe() const override {
    return str_cat({"cond of ", parameters_.size(), parameters_.size() == 1 ? " operand" : " operands"});
  }

 private:
  dtype index_;
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
  c.inputs = {g.node.inputs[0]};
  sequence<sequence<symbol>> gradients;  // of each branch
  for (const std::uint32_t branch : g.node.subgraphs) {
    c.subgraphs.push_back(where.add_subgraph(where.subgraph_at(branch).name));
    subgraph& made = where.subgraph_at(c.subgraphs.back());
    sequence<symbol> operands, wanted, from, upstream;
    for (std::size_t i = 1; i < g.node.inputs.size(); ++i) {
      symbol x = made.capture(where, g.node.inputs[i]);
      for (const symbol& known : operands)
        if (known.id() == x.id()) x = detail::record_identity(x);  // an operand of its own
      operands.push_back(x);
      if (g.needs_gradient(i)) wanted.push_back(operands.back());
    }
    const sequence<symbol> results = detail::copy_subgraph(where.subgraph_at(branch), made.nodes, operands);
    for (std::uint32_t o = 0; o < results.size(); ++o)
      if (g.has_upstream(o)) {
        from.push_back(results[o]);
        upstream.push_back(made.capture(where, g.upstream(o).id()));
      }
    gradients.push_back(made.nodes.differentiate(from, upstream, wanted, true));
  }
  sequence<std::size_t> reached;  // operands for which at least one branch has a gradient
  for (std::size_t i = 1, w = 0; i < g.node.inputs.size(); ++i) {
    if (!g.needs_gradient(i)) continue;
    bool any = false;
    for (const sequence<symbol>& of : gradients) any = any || !of[w].is_number();
    for (std::size_t k = 0; any && k < gradients.size(); ++k) {
      subgraph& made = where.subgraph_at(c.subgraphs[k]);
      const symbol d = gradients[k][w];
      made.results.push_back((d.is_number() ? fill(made.nodes, g.input(i).info(), 0) : d).id());
    }
    if (any) reached.push_back(i), c.outputs.push_back(g.input(i).info());
    ++w;
  }
  if (reached.empty()) return;
  detail::add_captured(where, c);
  const symbol first = where.record(static_cast<node_def&&>(c));
  for (std::uint32_t o = 0; o < reached.size(); ++o) g.set_gradient(reached[o], first.output(o));
}

namespace detail {

template <class Chosen, class... Branch, class... X>
auto record_branches(const Chosen& chosen, const std::tuple<const Branch&...>& branches, const X&... operands) {
  graph& where = graph_around(chosen, operands...);
  node_def c;
  c.op = &operation_of<cond_op>;
  c.inputs = {enter(where, chosen).id()};
  const auto entered = std::tuple{enter(where, operands)...};
  const auto record = [&](const auto& branch) {
    const std::size_t k = c.subgraphs.size();
    subgraph_recorder made(where, std::is_same_v<value_t<Chosen>, bool> ? k ? "else" : "then" : str_cat({"case_", k}));
    c.subgraphs.push_back(made.number());
    return std::apply([&](const auto&... x) { return made.record<is_invariant<X>...>(branch, x...); }, entered);
  };
  std::apply([&](const auto&... x) { (c.inputs.push_back(x.id()), ...); }, entered);
  const auto results = std::apply(
      [&](const auto& first, const auto&... more) {
        const auto r = record(first);
        (record(more), ...);
        return r;
      },
      branches);
  bool any_draws = false;
  for (const std::uint32_t k : c.subgraphs) any_draws = any_draws || draws(where.subgraph_at(k));
  const subgraph& first = where.subgraph_at(c.subgraphs[0]);
  for (const value& r : first.results) c.outputs.push_back(first.nodes.info(r));
  add_captured(where, c);
  if (any_draws) {
    c.inputs.push_back(record_random_position(where).id());
    for (const std::uint32_t k : c.subgraphs) {
      subgraph& b = where.subgraph_at(k);
      b.parameters.push_back(record_random_position(b.nodes).id());
    }
  }
  return outputs_as(where.record(static_cast<node_def&&>(c)), results);
}

template <class Call, class First, class... More>
auto run_branch(std::size_t number, const Call& call, const First& first, const More&... more) {
  if constexpr (sizeof...(More) == 0)
    return call(first);
  else
    return number == 0 ? call(first) : run_branch(number - 1, call, more...);
}

template <class Chosen, class... Branch, class... X>
auto call_branches(const Chosen& chosen, const std::tuple<const Branch&...>& branches, const X&... operands) {
  if constexpr (Chosen::symbolic || (X::symbolic || ...)) {
    return record_branches(materialize(chosen), branches, materialize(operands)...);
  } else {
    const auto index = eval(chosen).data()[0];
    const auto call = [&](const auto& branch) {
      return each_result(branch(materialize(operands)...), [](const auto& x) { return eval(x); });
    };
    const std::size_t number =
        branch_of(std::is_same_v<value_t<Chosen>, bool> ? !index : std::int64_t{index}, sizeof...(Branch));
    return std::apply([&](const auto&... branch) { return run_branch(number, call, branch...); }, branches);
  }
}

template <bool Symbolic, class... Parameters, class First, class... More>
constexpr auto find_branch_mistake(std::tuple<First, More...> (*)()) {
  if constexpr (!(is_subgraph_of<First, Parameters...> && ... && is_subgraph_of<More, Parameters...>)) {
    return subgraph_takes_other_parameters<Parameters...>{};
  } else {
    using mistake = first_mistake<result_mistake<Symbolic, result_of_subgraph<First, Parameters...>>,
                                  result_mistake<Symbolic, result_of_subgraph<More, Parameters...>>...>;
    if constexpr (!correct<mistake>)
      return mistake{};
    else
      return first_mistake<mistake,
                           branches_differ<typename typed_as<result_of_subgraph<First, Parameters...>>::type,
                                           typename typed_as<result_of_subgraph<More, Parameters...>>::type>...>{};
  }
}
template <class Chosen, class ChosenMistake, class Branches, class... X>
constexpr auto find_cond_mistake() {
  using mistake = first_mistake<ChosenMistake, operands_are_not_expressions<X...>>;
  if constexpr (!correct<mistake>) {
    return mistake{};
  } else {
    constexpr bool symbolic = Chosen::symbolic || (X::symbolic || ...);
    return find_branch_mistake<symbolic, parameter<symbolic, X>...>(static_cast<Branches (*)()>(nullptr));
  }
}

/// The number of functions in front of the operands.
template <class... X>
constexpr std::size_t branch_count() {
  constexpr bool operand[] = {Expression<X>..., true};
  std::size_t n = 0;
  while (!operand[n]) ++n;
  return n;
}
}  // namespace detail

/// cond requires a second branch.
template <class Then>
struct branch_is_missing : mistake<true> {};

/// The mistake in a call of cond, if any.
template <class Predicate, class Then, class Else, class... X>
using cond_mistake = decltype(detail::find_cond_mistake<Predicate, predicate_is_not_a_scalar_bool<Predicate>,
                                                        std::tuple<Then, Else>, X...>());

/// Applies one of two functions to the operands, depending on a scalar bool (tf.cond):
///
///     auto y = cond(mean(x) > 0, [&] { return x; }, [&] { return -x; });
///     auto z = cond(mean(x) > 0, [](auto a) { return a; }, [](auto a) { return -a; }, x);  // with an operand
///
/// Each function is called once, when the graph is built, with a parameter for each operand, and is recorded as a
/// subgraph. A step runs only the branch that the predicate selects. Both functions return an expression or a
/// std::tuple of expressions, with equal element types and extents, and cond returns the same. The values, variables
/// and layers of the graph that a function uses become inputs of the cond node. A function must not write variables and
/// cannot contain device scopes: it runs on the device of the node. The predicate is copied to the host. Gradients pass
/// through the selected branch and recompute its values. Over tensors, cond calls one of the functions at once.
template <class Predicate, class Then, class Else, class... X>
[[nodiscard]] auto cond(const Predicate& predicate, const Then& then, const Else& otherwise, const X&... operands) {
  using mistake = cond_mistake<Predicate, Then, Else, X...>;
  static_assert(
      correct<mistake>,
      "cond: takes a scalar of bool, and two functions that return expressions of the same elements and extents");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<float, dims<>>(predicate);
  } else {
    return detail::call_branches(predicate, std::tie(then, otherwise), operands...);
  }
}

template <class Predicate, class Then>
auto cond(const Predicate& predicate, const Then&) {
  static_assert(correct<branch_is_missing<Then>>,
                "cond: takes two functions: cond(p, [](auto x) { return -x; }, [](auto x) { return x; }, x)");
  return detail::after_mistake<float, dims<>>(predicate);
}

/// case_of requires functions and, after them, the operands.
template <class... X>
struct case_has_no_branches : mistake<true> {};

namespace detail {

template <class Index, class... X, std::size_t... Branch, std::size_t... Operand>
constexpr auto find_case_mistake(std::tuple<X...> (*)(), std::index_sequence<Branch...>,
                                 std::index_sequence<Operand...>) {
  if constexpr (sizeof...(Branch) == 0)
    return case_has_no_branches<X...>{};
  else
    return find_cond_mistake<Index, index_is_not_a_scalar_integer<Index>,
                             std::tuple<std::tuple_element_t<Branch, std::tuple<X...>>...>,
                             std::tuple_element_t<sizeof...(Branch) + Operand, std::tuple<X...>>...>();
}

}  // namespace detail

/// The mistake in a call of case_of, if any.
template <class Index, class... X>
using case_mistake = decltype(detail::find_case_mistake<Index>(
    static_cast<std::tuple<X...> (*)()>(nullptr), std::make_index_sequence<detail::branch_count<X...>()>(),
    std::make_index_sequence<sizeof...(X) - detail::branch_count<X...>()>()));

/// Applies the function of number `index` to the operands, and the last one if there is none of this number
/// (tf.switch_case; tf.case with an index):
///
///     auto y = case_of(k, [&] { return x; }, [&] { return -x; }, [&] { return x * x; });
///     auto z = case_of(k, [](auto a) { return a; }, [](auto a) { return -a; }, x);  // with an operand
///
/// The index is a scalar of std::int32_t or std::int64_t. All else is as for cond.
template <class Index, class... X>
[[nodiscard]] auto case_of(const Index& index, const X&... branches_and_operands) {
  using mistake = case_mistake<Index, X...>;
  static_assert(correct<mistake>,
                "case_of: takes a scalar std::int32_t or std::int64_t, functions that return expressions of the same "
                "elements and extents, and then their operands: case_of(k, [&] { return x; }, [&] { return -x; })");
  if constexpr (correct<mistake>) {
    constexpr std::size_t branches = detail::branch_count<X...>();
    const auto all = std::tie(branches_and_operands...);
    return [&]<std::size_t... Branch, std::size_t... Operand>(std::index_sequence<Branch...>,
                                                              std::index_sequence<Operand...>) {
      return detail::call_branches(index, std::tie(std::get<Branch>(all)...), std::get<branches + Operand>(all)...);
    }(std::make_index_sequence<branches>(), std::make_index_sequence<sizeof...(X) - branches>());
  } else {
    return detail::after_mistake<float, dims<>>(index);
  }
}

WEFT_COLD_END
}  // namespace weft
