// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>

#include <weft/graph/graph.hpp>
#include <weft/graph/graph_of.hpp>
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
/// Only the xs have this gradient: what `forward` reads otherwise counts as constant. `backward` runs when a gradient
/// is recorded, and can be differentiated again. The operands are nodes or expressions over nodes. In the body of a
/// loop or branch, `backward` reads only its parameters: what else it needs must be an operand.
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

/// Computes the gradients of a call of custom_gradient_op. The graph owns it.
struct recorded_gradient : graph_owned {
  virtual void set_gradients(gradient_context&) const = 0;
};

/// The first operand; the others receive gradients.
struct custom_gradient_op {
  static constexpr const char* name = "custom_gradient";
  static constexpr bool alias = true;
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::read : operand_use::extents;
  }
  static void gradient(gradient_context& g) { static_cast<const recorded_gradient*>(g.node.detail)->set_gradients(g); }
};

namespace detail {

/// Records y with a gradient for the operands that follow it.
symbol record_with_gradient(const sequence<symbol>& y_and_operands, recorded_gradient* gradient);

inline symbol record_with_gradient(const sequence<symbol>& y_and_operands, recorded_gradient* gradient) {
  const symbol y = y_and_operands[0];
  graph_of(y).whole().keep(gradient);
  for (const symbol& x : y_and_operands) check_same_graph(custom_gradient_op::name, y.builder(), x);
  return record_call(operation_of<custom_gradient_op>, y_and_operands.data(), y_and_operands.size(), {y.info()}, {},
                     gradient);
}

template <class Backward, class Y, class... Xs>
struct typed_gradient final : recorded_gradient {
  explicit typed_gradient(const Backward& f) : backward(f) {}
  Backward backward;

  void set_gradients(gradient_context& g) const override { set(g, typename make_indices<sizeof...(Xs)>::type()); }

 private:
  template <std::size_t... Index>
  void set(gradient_context& g, indices<Index...>) const {
    const auto found = backward(node_of<Y>(g.upstream()), node_of<Y>(g.input(0)), node_of<Xs>(g.input(Index + 1))...);
    if constexpr (Expression<std::remove_const_t<decltype(found)>>)
      set_one(g, 1, found);
    else
      (set_one(g, Index + 1, std::get<Index>(found)), ...);
  }
  template <class Gradient>
  static void set_one(gradient_context& g, std::size_t operand, const Gradient& d) {
    if (g.needs_gradient(operand)) g.set_gradient(operand, node_of<Gradient>(let(d).erased()).erased());
  }
};

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
      return detail::node_of<Y>(detail::record_with_gradient(
          {y.erased(), x.erased()...},
          new detail::typed_gradient<Backward, Y, std::remove_cvref_t<decltype(x)>...>(backward)));
    }(let(xs)...);
  } else {
    return detail::after_mistake<float, dims<>>(xs...);
  }
}

}  // namespace weft
