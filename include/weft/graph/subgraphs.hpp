// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/graph/graph.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/random/random_position.hpp>
#include <weft/ops/subgraphs.hpp>

/// Recording of subgraphs: functions are called with parameters that belong to a separate graph. See cond and
/// while_loop.
namespace weft {

/// The predicate must be a scalar bool.
template <class Predicate>
struct predicate_is_not_a_scalar_bool : mistake<true> {};
template <Expression Predicate>
struct predicate_is_not_a_scalar_bool<Predicate>
    : mistake<!std::is_same_v<value_t<Predicate>, bool> || dims_t<Predicate>::rank != 0> {};

/// Operands must be nodes, expressions or tensors.
template <class... Operands>
struct operands_are_not_expressions : mistake<!(Expression<Operands> && ...)> {};

/// A subgraph's function must accept one parameter for each operand.
template <class... Parameters>
struct subgraph_takes_other_parameters : mistake<true> {};

/// A subgraph must return an expression or a std::tuple of expressions. To return a number, write tensor<float>(1).
template <class Result>
struct result_is_not_an_expression : mistake<!Expression<Result>> {};
template <class... Results>
struct result_is_not_an_expression<std::tuple<Results...>> : mistake<!(Expression<Results> && ...)> {};

/// A body over tensors reads nodes: pass at least one operand as a node, `constant(g, x)`.
template <bool Symbolic, class Result>
struct no_operand_is_in_the_graph : mistake<false> {};
template <Expression Result>
struct no_operand_is_in_the_graph<false, Result> : mistake<Result::symbolic> {};
template <Expression... Results>
struct no_operand_is_in_the_graph<false, std::tuple<Results...>> : mistake<(Results::symbolic || ...)> {};

/// A value that all iterations read unchanged: `invariant(weights)`.
template <Expression X>
struct loop_invariant {
  X value;
};

WEFT_COLD_BEGIN
namespace detail {

/// The element type and dims of an expression, or of each expression in a tuple.
template <class X>
struct typed_as {
  using type = tensor<value_t<X>, typename dims_t<X>::dims_type>;
};
template <class... X>
struct typed_as<std::tuple<X...>> {
  using type = std::tuple<typename typed_as<X>::type...>;
};
template <class X>
struct typed_as<std::tuple<X>> : typed_as<X> {};

/// The type of an operand inside a subgraph.
template <bool Symbolic, class X>
using parameter = std::conditional_t<Symbolic, node<value_t<X>, typename dims_t<X>::dims_type, device_t<X>>,
                                     tensor<value_t<X>, typename dims_t<X>::dims_type, device_t<X>>>;

template <class F, class... Parameters>
inline constexpr bool is_subgraph_of = requires(const F& f, const Parameters&... p) { f(p...); };
template <class F, class... Parameters>
using result_of_subgraph =
    std::remove_cvref_t<decltype(std::declval<const F&>()(std::declval<const Parameters&>()...))>;

template <class X>
inline constexpr bool is_invariant = false;
template <class X>
inline constexpr bool is_invariant<loop_invariant<X>> = true;

/// The mistake in the result of a body whose parameters are nodes if `Symbolic`, otherwise tensors.
template <bool Symbolic, class Result>
using result_mistake = first_mistake<result_is_not_an_expression<Result>, no_operand_is_in_the_graph<Symbolic, Result>>;

template <class F, class X>
auto each_result(const X& results, const F& f) {
  if constexpr (Expression<X>)
    return f(results);
  else
    return std::apply([&](const auto&... r) { return std::tuple{f(r)...}; }, results);
}

/// Records a subgraph. What it reads of the graph around it, it captures: add_captured makes that inputs of the node.
class subgraph_recorder {
 public:
  subgraph_recorder(graph& around, const std::string& name)
      : around_(around.self()), number_(around.add_subgraph(name)) {
    around_.take_unused_place();
  }
  ~subgraph_recorder() { around_.record_body(nullptr); }
  subgraph_recorder(const subgraph_recorder&) = delete;
  subgraph_recorder& operator=(const subgraph_recorder&) = delete;

  std::uint32_t number() const { return number_; }
  subgraph& made() const { return around_.subgraph_at(number_); }

  symbol parameter(const value_info& info);
  /// Begins the body, after its parameters.
  void begin() { around_.record_body(&made()); }
  template <class P>
  void result(const P& r) {
    if constexpr (P::symbolic)
      result_of(let(r).erased());
    else
      result_of(constant_of(eval(r)));
  }
  void result_of(symbol);
  /// Ends the body. Throws if it contains operations that subgraphs do not support.
  void end();

  /// Calls a function with one parameter for each of the given values, or with the value itself if it is invariant.
  template <bool... Invariant, class F, class... Parameters>
  auto record(const F& f, const Parameters&... like) {
    const auto made = std::tuple<Parameters...>{(Invariant ? like : Parameters(parameter(like.erased().info())))...};
    begin();
    return record_results(std::apply(f, made));
  }
  /// Records the results that the function returned.
  template <class Results>
  Results record_results(const Results& results) {
    each_result(results, [&](const auto& r) {
      result(r);
      return 0;
    });
    end();
    return results;
  }

 private:
  template <class T>
  symbol constant_of(const T& t) {
    return made().nodes.record_constant(t.data(), {dtype_of<value_t<T>>, dims_t<T>::spec}, t.extents());
  }

  graph& around_;
  std::uint32_t number_;
};

/// Copies the nodes that a subgraph's results depend on into another graph, with `parameters` in place of the
/// subgraph's.
sequence<symbol> copy_subgraph(const subgraph&, graph& to, const sequence<symbol>& parameters);

/// Marks each node of a subgraph on which a result depends: on its value or, unless `values_alone`, on its extents.
sequence<char> nodes_reached(const subgraph&, bool values_alone = false);

/// Creates a parameter of a subgraph that is recorded in symbols.
inline symbol make_parameter(subgraph& b, const value_info& info) {
  node_def c;
  c.op = &operation_of<placeholder_op>;
  c.outputs = {info};
  return {&b.nodes, {b.nodes.add(static_cast<node_def&&>(c), "parameter"), 0}};
}
/// Creates and appends a parameter.
inline symbol add_parameter(subgraph& b, const value_info& info) {
  b.parameters.push_back(make_parameter(b, info).id());
  return {&b.nodes, b.parameters.back()};
}

/// Returns true if a subgraph draws random numbers. The random position is then one of its parameters.
inline bool draws(const subgraph& b) {
  for (std::uint32_t n = 0; n < b.nodes.size(); ++n)
    if (is_operation<random_position_op>(b.nodes[n].def.op)) return true;
  return false;
}

inline symbol subgraph_recorder::parameter(const value_info& info) { return add_parameter(made(), info); }

inline void subgraph_recorder::result_of(symbol s) {
  if (s.builder() != &made().nodes.self())
    throw error(error_code::invalid_argument, made().name, "returns a value of another graph");
  made().results.push_back(s.id());
}

inline void subgraph_recorder::end() {
  around_.record_body(nullptr);
  // Checked here, because the expressions that a body returns are recorded after its scopes have ended.
  if (const device_spec place = around_.take_unused_place(); !(place == device_spec()))
    throw error(error_code::invalid_argument, made().name,
                {"its body has a device scope for ", to_string(place),
                 ", but subgraphs of cond and while_loop run where their node runs: put the scope around the call"});
  const auto refuse = [&](const graph_node& n, const char* why) {
    throw error(error_code::invalid_argument, made().name, {n.name, " ", why});
  };
  const graph& nodes = made().nodes;
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    const operation* const op = nodes[n].def.op;
    bool is_parameter = !is_operation<placeholder_op>(op);
    for (const value& p : made().parameters) is_parameter = is_parameter || p.node == n;
    for (const auto& p : made().captured) is_parameter = is_parameter || p.inside->id().node == n;
    if (!is_parameter) refuse(nodes[n], "is a placeholder of the subgraph: make it outside");
    if (op->writes) refuse(nodes[n], "writes a variable in a subgraph: return the value, and assign it outside");
  }
}

inline sequence<char> nodes_reached(const subgraph& b, bool values_alone) {
  sequence<char> reached(b.nodes.size(), 0);
  for (const value& r : b.results) reached[r.node] = 1;
  for (auto n = static_cast<std::uint32_t>(b.nodes.size()); n-- > 0;) {
    const node_def& c = b.nodes[n].def;
    for (std::size_t k = 0; reached[n] && k < c.inputs.size(); ++k)
      if (!values_alone || !c.op->use || c.op->use(c, k) != operand_use::extents) reached[c.inputs[k].node] = 1;
  }
  return reached;
}

/// Appends what the bodies of a node captured to its inputs and to the parameters of each body.
inline void add_captured(graph& where, node_def& c) {
  sequence<value> all;
  for (const std::uint32_t b : c.subgraphs) {
    subgraph& body = where.subgraph_at(b);
    const sequence<char> reached = nodes_reached(body);
    for (std::size_t k = body.captured.size(); k-- > 0;)
      if (!reached[body.captured[k].inside->id().node]) body.captured.erase(k);
    for (const auto& v : body.captured) {
      bool known = false;
      for (const value& other : all) known = known || other == v.outside;
      if (!known) all.push_back(v.outside);
    }
  }
  for (const value& v : all) {
    c.inputs.push_back(v);
    for (const std::uint32_t b : c.subgraphs) {
      subgraph& body = where.subgraph_at(b);
      const symbol* inside = nullptr;
      for (const auto& known : body.captured)
        if (known.outside == v) inside = known.inside.get();
      body.parameters.push_back((inside ? *inside : make_parameter(body, where.info(v))).id());
    }
  }
}

inline sequence<symbol> copy_subgraph(const subgraph& from, graph& to, const sequence<symbol>& parameters) {
  const graph& nodes = from.nodes;
  sequence<char> needed = nodes_reached(from);
  sequence<value> at(nodes.size());  // the first output of each node
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at[from.parameters[i].node] = parameters[i].id();
    needed[from.parameters[i].node] = 0;
  }
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    if (!needed[n]) continue;
    node_def c = nodes[n].def;
    if (is_operation<constant_op>(c.op)) {
      shape extents;
      for (const std::int64_t size : c.attributes) extents.push_back(size);
      at[n] = to.record_constant(nodes[n].init.data.data(), c.outputs[0], extents).id();
      continue;
    }
    for (value& in : c.inputs) in = {at[in.node].node, at[in.node].output + in.output};
    at[n] = to.record(static_cast<node_def&&>(c)).id();
  }
  sequence<symbol> results;
  for (const value& r : from.results) results.push_back({&to, {at[r.node].node, at[r.node].output + r.output}});
  return results;
}

/// Returns an operand as a node of the graph around a subgraph. A tensor becomes a constant.
template <class X>
auto enter(graph& g, const X& x) {
  if constexpr (X::symbolic) {
    const symbol s = x.erased();
    check_same_graph("operand", &g, s);
    return parameter<true, X>(s);
  } else {
    return parameter<true, X>(g.record_constant(x.data(), {dtype_of<value_t<X>>, dims_t<X>::spec}, x.extents()));
  }
}

/// Returns the graph of the first operand that has one.
template <class X, class... More>
graph& graph_around(const X& x, const More&... more) {
  if constexpr (X::symbolic)
    return *static_cast<graph*>(x.erased().builder());
  else
    return graph_around(more...);
}

/// Returns nodes with the types of a subgraph's results for the outputs of a node, starting at `first`.
template <class Results>
auto outputs_as(symbol first, const Results& like) {
  std::uint32_t output = first.id().output;
  return each_result(
      like, [&]<class R>(const R&) { return make_node<value_t<R>, dims_t<R>, device_t<R>>(first.output(output++)); });
}

}  // namespace detail
WEFT_COLD_END

}  // namespace weft
