// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include <weft/graph/graph.hpp>
#include <weft/graph/graph_of.hpp>
#include <weft/graph/subgraphs.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/lowering.hpp>

/// Functions with a gradient that the caller defines. Not part of <weft/weft.hpp>.
namespace weft {

/// Returns `forward(xs...)` with the gradient that `backward` computes (tf.custom_gradient, torch.autograd.Function).
/// `backward(upstream, y, xs...)` receives the gradient of the result, the result and the operands as nodes. It returns
/// the gradient of each x, with the extents and type of the x, as a tuple, or alone for one x:
///
///     auto y = custom_gradient([](auto x) { return floor(x); },             // a straight-through estimator
///                              [](auto upstream, auto y, auto x) { return upstream; }, x);
///
/// Only the xs have this gradient: what `forward` reads otherwise counts as constant. `backward` is called once, when
/// the call is recorded; it can read other values and be differentiated again. The operands are nodes or expressions
/// over nodes.
template <class Forward, class Backward, Expression... Xs>
[[nodiscard]] auto custom_gradient(const Forward& forward, const Backward& backward, const Xs&... xs);

/// A custom gradient requires operands in a graph; tensors have no gradients.
template <class... Xs>
struct operands_are_not_in_a_graph : mistake<!(sizeof...(Xs) > 0 && (Xs::symbolic && ...))> {};

/// `forward` must accept the operands, and return one expression over nodes.
template <class Forward, class... Xs>
struct forward_is_not_an_expression : mistake<true> {};
template <class Forward, class... Xs>
  requires requires(const Forward& f, const Xs&... xs) {
    { f(xs...) } -> Expression;
  }
struct forward_is_not_an_expression<Forward, Xs...>
    : mistake<!std::remove_cvref_t<decltype(std::declval<const Forward&>()(std::declval<const Xs&>()...))>::symbolic> {
};

/// `backward` must accept the upstream gradient, the result and the operands.
template <class Backward, class Y, class... Xs>
    struct backward_takes_other_operands : mistake < !requires(const Backward& f, const Y& y, const Xs&... xs) {
  f(y, y, xs...);
}>{};

/// `backward` must return one gradient for each operand, with its extents and element type.
template <class Gradients, class... Xs>
struct gradients_do_not_fit : mistake<true> {};
template <Expression Gradient, class X>
struct gradients_do_not_fit<Gradient, X>
    : mistake<!std::is_same_v<value_t<Gradient>, value_t<X>> || !std::is_same_v<dims_t<Gradient>, dims_t<X>>> {};
template <Expression... Gradients, class... Xs>
  requires(sizeof...(Gradients) == sizeof...(Xs))
struct gradients_do_not_fit<std::tuple<Gradients...>, Xs...>
    : mistake<(gradients_do_not_fit<Gradients, Xs>::value || ...)> {};

WEFT_COLD_BEGIN

/// A result and its operands, which alone have gradients. Yields the result.
struct result_with_operands {
  static constexpr const char* onnx = "a";
  static constexpr bool alias = true;
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::read : operand_use::extents;
  }
};

/// Inputs: the result, the operands, and what the gradient captured. The gradient is a subgraph whose parameters are
/// the upstream gradient and the inputs.
struct custom_gradient_op : result_with_operands {
  static constexpr const char* name = "custom_gradient";
  struct attributes {
    attribute<std::uint32_t> backward;
  };
  static void gradient(gradient_context& g, const attributes& a) {
    graph& where = graph_of(g.input(0));
    sequence<symbol> parameters{g.upstream()};
    for (std::size_t i = 0; i < g.node.inputs.size(); ++i) parameters.push_back(g.input(i));
    const sequence<symbol> found = detail::copy_subgraph(where.subgraph_at(a.backward), where, parameters);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (g.needs_gradient(i + 1)) g.set_gradient(i + 1, found[i]);
  }
};

namespace detail {

template <class Backward, class Y, class... Xs>
Y record_with_gradient(const Backward& backward, const Y& y, const Xs&... xs) {
  graph& where = graph_of(y.erased());
  for (const symbol& x : {xs.erased()...}) check_same_graph(custom_gradient_op::name, &where, x);
  subgraph_recorder made(where, "gradient");
  const auto parameter = [&]<class X>(const X& like) { return X(made.parameter(like.erased().info())); };
  const std::tuple<Y, Y, Xs...> parameters{parameter(y), parameter(y), parameter(xs)...};
  made.begin();
  made.record_results(std::apply(backward, parameters));
  node_def c;
  c.op = &operation_of<custom_gradient_op>;
  c.inputs = {y.erased().id(), xs.erased().id()...};
  c.outputs = {y.erased().info()};
  c.subgraphs = {made.number()};
  add_captured(where, c);
  c.subgraphs.clear();  // no step runs it
  c.attributes = words_of(custom_gradient_op::attributes{made.number()});
  return Y(where.record(static_cast<node_def&&>(c)));
}

}  // namespace detail
WEFT_COLD_END

namespace detail {

/// The node that let() makes of an expression.
template <class X>
using let_type = std::remove_cvref_t<decltype(let(std::declval<const X&>()))>;
template <class Forward, class... Xs>
using forward_type =
    let_type<std::remove_cvref_t<decltype(std::declval<const Forward&>()(std::declval<const let_type<Xs>&>()...))>>;

template <class Forward, class Backward, class... Xs>
constexpr auto find_custom_gradient_mistake() {
  if constexpr (!correct<operands_are_not_in_a_graph<Xs...>>) {
    return operands_are_not_in_a_graph<Xs...>{};
  } else if constexpr (!correct<forward_is_not_an_expression<Forward, let_type<Xs>...>>) {
    return forward_is_not_an_expression<Forward, let_type<Xs>...>{};
  } else {
    using Y = forward_type<Forward, Xs...>;
    if constexpr (!correct<backward_takes_other_operands<Backward, Y, let_type<Xs>...>>)
      return backward_takes_other_operands<Backward, Y, let_type<Xs>...>{};
    else
      return gradients_do_not_fit<
          std::remove_cvref_t<decltype(std::declval<const Backward&>()(
              std::declval<const Y&>(), std::declval<const Y&>(), std::declval<const let_type<Xs>&>()...))>,
          let_type<Xs>...>{};
  }
}

}  // namespace detail

/// The first mistake in a call of custom_gradient, if any.
template <class Forward, class Backward, class... Xs>
using custom_gradient_mistake = decltype(detail::find_custom_gradient_mistake<Forward, Backward, Xs...>());

template <class Forward, class Backward, Expression... Xs>
auto custom_gradient(const Forward& forward, const Backward& backward, const Xs&... xs) {
  using mistake = custom_gradient_mistake<Forward, Backward, Xs...>;
  static_assert(correct<mistake>,
                "custom_gradient: custom_gradient(forward, backward, x...) takes nodes; forward(x...) returns one "
                "expression, and backward(upstream, y, x...) the gradient of each x, of its extents and type");
  if constexpr (correct<mistake>) {
    using Y = detail::forward_type<Forward, Xs...>;
    return [&](const auto&... x) {
      const auto y = let(forward(x...));
      return detail::record_with_gradient(backward, Y(y), x...);
    }(let(xs)...);
  } else {
    return detail::after_mistake<float, dims<>>(xs...);
  }
}

}  // namespace weft
