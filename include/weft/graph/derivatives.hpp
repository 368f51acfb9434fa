// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>

#include <weft/graph/gradients.hpp>
#include <weft/graph/graph_of.hpp>
#include <weft/graph/subgraphs.hpp>
#include <weft/ops/arrays/concat.hpp>

/// Products with Jacobians and Hessians, and whole Jacobians and Hessians. Not part of <weft/weft.hpp>.
namespace weft {

/// Returns the gradients of sum(v * y) with respect to each x, with v as constant: a tuple of nodes with the types of
/// the xs (tf.gradients with grad_ys, torch.autograd.grad with grad_outputs). `v` has the extents and type of y.
template <Expression Y, Expression V, Expression... Xs>
[[nodiscard]] auto vector_jacobian_product(const Y& y, const V& v, const Xs&... xs);

/// Returns the derivative of y in direction v of x, with the extents of y (torch.func.jvp, jax.jvp). `v` has the
/// extents and type of x. Records the gradient of a gradient, so every operation between x and y must have a second
/// gradient. For several xs, add their products.
template <Expression Y, Expression X, Expression V>
[[nodiscard]] auto jacobian_vector_product(const Y& y, const X& x, const V& v);

/// Returns the product of the Hessian of the scalar y with v, with the extents of x. `v` has the extents and type of x.
template <Expression Y, Expression X, Expression V>
[[nodiscard]] auto hessian_vector_product(const Y& y, const X& x, const V& v);

/// Returns the derivative of each element of y with respect to each element of x, `[extents of y..., extents of x...]`
/// (torch.autograd.functional.jacobian, tf.GradientTape.jacobian). y has static extents of at most 4,096 elements; the
/// graph grows by one gradient for each.
template <Expression Y, Expression X>
[[nodiscard]] auto jacobian(const Y& y, const X& x);

/// Returns the derivatives of each row of y with respect to the same row of x (tf.GradientTape.batch_jacobian): for y
/// `[batch, n]` and x `[batch, extents...]`, `[batch, n, extents...]`. Row i of y must depend on row i of x alone. n is
/// a number of at most 4,096.
template <Expression Y, Expression X>
[[nodiscard]] auto batch_jacobian(const Y& y, const X& x);

/// Returns the second derivatives of the scalar y, `[extents of x..., extents of x...]` (tf.hessians). See jacobian.
template <Expression Y, Expression X>
[[nodiscard]] auto hessian(const Y& y, const X& x);

/// The factor of a Jacobian must have the extents and element type of the value that it multiplies.
template <class V, class Like>
struct factor_does_not_fit
    : mistake<!std::is_same_v<value_t<V>, value_t<Like>> || !std::is_same_v<dims_t<V>, dims_t<Like>>> {};

/// A Jacobian requires static extents, and not too many elements: one gradient is recorded for each.
template <class Dims>
struct jacobian_needs_static_extents : mistake<!Dims::is_static> {};
template <class Dims>
  requires(Dims::is_static)
struct jacobian_needs_static_extents<Dims> : mistake<(4096 < Dims::spec.elements())> {};

/// y must be `[batch, n]`, with a number n of at most 4,096, and x must have the same first extent.
template <class Y, class X>
struct batch_jacobian_does_not_fit : mistake<true> {};
template <class Y, class X>
  requires(Y::rank == 2 && X::rank > 0)
struct batch_jacobian_does_not_fit<Y, X>
    : mistake<!(Y::spec[0] == X::spec[0] && 0 <= Y::spec[1] && Y::spec[1] <= 4096)> {};

/// The differentiated value must be a scalar.
template <class Dims>
struct hessian_of_no_scalar : mistake<Dims::rank != 0> {};

WEFT_COLD_BEGIN
namespace detail {

/// The products of v with the Jacobian of y, zeros where y does not depend on an x.
sequence<symbol> products_with_jacobian(symbol y, symbol v, const sequence<symbol>& xs);
/// The derivative of y in direction v of x.
symbol derivative_along(symbol y, symbol x, symbol v);
/// Stacks the gradients of y's elements, or of its columns, along a new first or second axis.
symbol stacked_gradients(symbol y, symbol x, std::int64_t count, bool of_columns, const value_info& stacked);

inline sequence<symbol> products_with_jacobian(symbol y, symbol v, const sequence<symbol>& xs) {
  auto found = y.builder()->differentiate({y}, {v}, xs, false);
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (found[i].is_number()) found[i] = fill(*y.builder(), xs[i].info(), 0);
  return found;
}

inline symbol derivative_along(symbol y, symbol x, symbol v) {
  graph& g = graph_of(y);
  // The product with the Jacobian is linear in its factor u, so u can be any number. Its node is not shared, since
  // nothing else may depend on it.
  const symbol u(&g, g.with_name(record_identity(fill(g, y.info(), 0)).id(), "tangent"));
  const symbol product = g.differentiate({y}, {u}, {x}, false)[0];
  if (product.is_number()) return fill(g, y.info(), 0);
  return products_with_jacobian(product, v, {u})[0];
}

inline symbol stacked_gradients(symbol y, symbol x, std::int64_t count, bool of_columns, const value_info& stacked) {
  graph& g = graph_of(y);
  const shape& of = y.extents();
  shape unit_extents = of_columns ? shape(1, of[1]) : of;
  const std::size_t axis = of_columns ? 1 : 0;
  sequence<symbol> parts;
  storage unit(value_info{y.type(), unit_extents}.bytes());
  for (std::int64_t i = 0; i < count; ++i) {
    __builtin_memset(unit.data(), 0, value_info{y.type(), unit_extents}.bytes());
    const auto at = static_cast<std::size_t>(i);
    if (y.type() == dtype::float32)
      reinterpret_cast<float*>(unit.data())[at] = 1;
    else
      reinterpret_cast<double*>(unit.data())[at] = 1;
    symbol v = g.record_constant(unit.data(), {y.type(), unit_extents}, unit_extents);
    if (of_columns) v = broadcast_to(v, of);
    const symbol row = products_with_jacobian(y, v, {x})[0];
    if (count == 1) return reshape(row, stacked.extents);
    parts.push_back(expand_dims(row, {axis}));
  }
  if (parts.empty()) return fill(g, stacked, 0);
  shape extents = parts[0].extents();
  extents[axis] = count;
  return reshape(record<concat_op>(parts, {{x.type(), extents}}, {axis}), stacked.extents);
}

/// The extents of y followed by those of x.
template <class Y, class X>
struct jacobian_dims;
template <auto... Of, auto... With>
struct jacobian_dims<dims<Of...>, dims<With...>> {
  using type = dims<Of..., With...>;
};
/// The extents of y followed by those of x without the first one.
template <class Y, class X>
struct batch_jacobian_dims;
template <auto... Of, auto Batch, auto... With>
struct batch_jacobian_dims<dims<Of...>, dims<Batch, With...>> {
  using type = dims<Of..., With...>;
};

/// The first mistake in a derivative of y with respect to x, if any.
template <class Y, class X>
using derivative_mistake = first_mistake<gradient_root_mistake<Y>, gradient_of_non_floating<value_t<X>>,
                                         gradient_with_respect_to_expression<X>>;

template <class Y, class... Xs>
symbol root_of_derivative(const Y& y) {
  const symbol root = let(y).erased();
  use_primitives<value_t<Y>>(*root.builder());
  (use_primitives<value_t<Xs>>(*root.builder()), ...);
  return root;
}

template <class D, class X>
auto node_of_jacobian(symbol s) {
  remember_extents<D>(*s.builder());
  return make_node<value_t<X>, D, device_t<X>>(s);
}

}  // namespace detail
WEFT_COLD_END

template <Expression Y, Expression V, Expression... Xs>
auto vector_jacobian_product(const Y& y, const V& v, const Xs&... xs) {
  using mistake = first_mistake<gradient_of_nothing<sizeof...(Xs)>, detail::derivative_mistake<Y, Xs>...,
                                factor_does_not_fit<V, Y>>;
  static_assert(
      correct<mistake>,
      "vector_jacobian_product: takes y, a factor of the extents and type of y, and the nodes to differentiate "
      "with respect to: let() makes one");
  if constexpr (correct<mistake>) {
    const symbol root = detail::root_of_derivative<Y, Xs...>(y);
    const symbol factor = detail::enter(graph_of(root), v).erased();
    const auto found = detail::products_with_jacobian(root, factor, {xs.erased()...});
    auto next = [&, i = std::size_t{0}]() mutable { return found[i++]; };
    return std::tuple{detail::node_of<Xs>(next())...};
  } else {
    return std::tuple{detail::same_after_mistake(xs)...};
  }
}

template <Expression Y, Expression X, Expression V>
auto jacobian_vector_product(const Y& y, const X& x, const V& v) {
  using mistake = first_mistake<detail::derivative_mistake<Y, X>, factor_does_not_fit<V, X>>;
  static_assert(correct<mistake>,
                "jacobian_vector_product: takes y, a node x, and a direction of the extents and type of x");
  if constexpr (correct<mistake>) {
    const symbol root = detail::root_of_derivative<Y, X>(y);
    return detail::node_of<Y>(detail::derivative_along(root, x.erased(), detail::enter(graph_of(root), v).erased()));
  } else {
    return detail::same_after_mistake(y);
  }
}

template <Expression Y, Expression X, Expression V>
auto hessian_vector_product(const Y& y, const X& x, const V& v) {
  using mistake =
      first_mistake<hessian_of_no_scalar<dims_t<Y>>, detail::derivative_mistake<Y, X>, factor_does_not_fit<V, X>>;
  static_assert(correct<mistake>,
                "hessian_vector_product: takes a scalar y, a node x, and a factor of the extents and type of x");
  if constexpr (correct<mistake>) {
    const auto [dx] = gradients(y, x);
    return std::get<0>(vector_jacobian_product(dx, v, x));
  } else {
    return detail::same_after_mistake(x);
  }
}

template <Expression Y, Expression X>
auto jacobian(const Y& y, const X& x) {
  using mistake = first_mistake<detail::derivative_mistake<Y, X>, jacobian_needs_static_extents<dims_t<Y>>>;
  static_assert(correct<mistake>,
                "jacobian: takes y of static extents, at most 4096 elements, and a node x; batch_jacobian takes y "
                "[batch, n]");
  if constexpr (correct<mistake>) {
    using D = dims_t<typename detail::jacobian_dims<dims_t<Y>, dims_t<X>>::type>;
    gpu::compile_kernels<gpu::moves, value_t<X>>();
    const symbol root = detail::root_of_derivative<Y, X>(y);
    return detail::node_of_jacobian<D, X>(
        detail::stacked_gradients(root, x.erased(), static_cast<std::int64_t>(dims_t<Y>::spec.elements()), false,
                                  {dtype_of<value_t<X>>, D::spec}));
  } else {
    return detail::same_after_mistake(x);
  }
}

template <Expression Y, Expression X>
auto batch_jacobian(const Y& y, const X& x) {
  using mistake = first_mistake<detail::derivative_mistake<Y, X>, batch_jacobian_does_not_fit<dims_t<Y>, dims_t<X>>>;
  static_assert(correct<mistake>, "batch_jacobian: takes y [batch, n] with a number n, and a node x [batch, ...]");
  if constexpr (correct<mistake>) {
    using D = dims_t<typename detail::batch_jacobian_dims<dims_t<Y>, dims_t<X>>::type>;
    gpu::compile_kernels<gpu::moves, value_t<X>>();
    const symbol root = detail::root_of_derivative<Y, X>(y);
    return detail::node_of_jacobian<D, X>(
        detail::stacked_gradients(root, x.erased(), dims_t<Y>::spec[1], true, {dtype_of<value_t<X>>, D::spec}));
  } else {
    return detail::same_after_mistake(x);
  }
}

template <Expression Y, Expression X>
auto hessian(const Y& y, const X& x) {
  using mistake = first_mistake<hessian_of_no_scalar<dims_t<Y>>, detail::derivative_mistake<Y, X>,
                                jacobian_needs_static_extents<dims_t<X>>>;
  static_assert(correct<mistake>, "hessian: takes a scalar y, and a node x of static extents, at most 4096 elements");
  if constexpr (correct<mistake>) {
    const auto [dx] = gradients(y, x);
    return jacobian(dx, x);
  } else {
    return detail::same_after_mistake(x);
  }
}

}  // namespace weft
