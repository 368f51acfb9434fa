// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/graph.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// Gradients require values of float, double, half or bfloat16.
template <class T>
struct gradient_of_non_floating : mistake<!is_differentiable<T>> {};

/// Gradients with respect to an expression require a node: create one with `auto h = let(...)` and use `h` in y.
template <class X>
struct gradient_with_respect_to_expression : mistake<!is_node<X>> {};

/// gradients() requires at least one value to differentiate with respect to.
template <std::size_t Count>
struct gradient_of_nothing : mistake<Count == 0> {};

/// The mistake in the differentiated value, if any.
template <class Y>
using gradient_root_mistake = first_mistake<value_not_in_a_graph<Y>, not_floating<value_t<Y>>>;

namespace detail {

sequence<symbol> gradients(symbol y, const sequence<symbol>& xs);

#if WEFT_DEFINITIONS

WEFT_DECL sequence<symbol> gradients(symbol y, const sequence<symbol>& xs) {
  for (const symbol& x : xs) {
    const graph& g = *static_cast<graph*>(y.builder());
    const operation* op = x.builder() == y.builder() ? g[x.id().node].def.op : nullptr;
    if (op && x.id().node > y.id().node && !is_operation<variable_op>(op) && !is_operation<placeholder_op>(op))
      throw error(error_code::invalid_argument, g[x.id().node].name,
                  "was created after y, so y cannot depend on it: make it a node with let() before it is used");
  }
  const sequence<symbol> of{y};
  const symbol one = y.extents().rank == 0 ? as_scalar(*y.builder(), 1, y.type()) : fill(*y.builder(), y.info(), 1);
  auto results = y.builder()->differentiate(of, {one}, xs, false);
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (results[i].is_number()) results[i] = fill(*y.builder(), xs[i].info(), 0);
  return results;
}

#endif

}  // namespace detail

/// Returns the gradients of the sum of y's elements with respect to each x: a tuple of nodes with the types of the xs
/// (tf.gradients). y is float or double; an x may also be half or bfloat16. The gradient is zero if y does not depend
/// on x. Gradients can be differentiated again.
///
/// An expression that was fused into another one is not a node of the graph. To differentiate with respect to an
/// expression, make it a node before using it: `auto h = let(exp(x)); auto y = sum(h * h); auto [dh] = gradients(y,
/// h);`
template <Expression Y, Expression... Xs>
[[nodiscard]] auto gradients(const Y& y, const Xs&... xs) {
  static_assert(correct<gradient_of_nothing<sizeof...(Xs)>>,
                "gradients: pass the xs after y, one by one: auto [dw, db] = gradients(loss, w, b);");
  static_assert(
      correct<gradient_root_mistake<Y>>,
      "gradients: y must be a float or double value in a graph: make placeholders or variables of the tensors");
  static_assert((correct<gradient_of_non_floating<value_t<Xs>>> && ...),
                "gradients: each x must be floating-point, not an integer or bool");
  static_assert((correct<gradient_with_respect_to_expression<Xs>> && ...),
                "gradients: each x must be a node: let() makes one");
  if constexpr (!(is_node<Xs> && ...)) {
    return std::tuple{materialize(xs)...};
  } else if constexpr (correct<gradient_root_mistake<Y>> && (is_differentiable<value_t<Xs>> && ...)) {
    const auto root = let(y);
    op_builder& where = *root.erased().builder();
    detail::use_primitives<value_t<Y>>(where);
    (detail::use_primitives<value_t<Xs>>(where), ...);
    const auto results = detail::gradients(root.erased(), {xs.erased()...});
    auto next = [&, i = std::size_t{0}]() mutable { return results[i++]; };
    return std::tuple{detail::node_of<Xs>(next())...};
  } else {
    return std::tuple{detail::node_of<Xs>(xs.erased())...};
  }
}
template <auto...>
auto gradients(...) WEFT_DELETED;  // y, and the xs one by one: auto [dw, db] = gradients(loss, w, b)

}  // namespace weft

WEFT_COLD_END
