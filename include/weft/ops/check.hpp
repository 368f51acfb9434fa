// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/ops/node.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

/// An axis is out of range, or listed twice. Axes count from 0, and negative axes from the end.
template <class Dims, int... Axes>
struct axis_out_of_range : mistake<detail::axis_mask<Axes...>(Dims::rank) == detail::invalid_axes> {};

/// The number of an axis; negative axes count from the end.
template <class Dims, int Axis>
inline constexpr std::size_t axis_number =
    static_cast<std::size_t>(Axis < 0 ? Axis + static_cast<int>(Dims::rank) : Axis);

namespace detail {
constexpr bool is_int(std::int64_t extent) { return extent >= 0 && extent <= 0x7fffffff; }
/// Returns true if the first extents are equal, as far as both have these axes.
constexpr bool same_extents(const shape& a, const shape& b, std::size_t axes) {
  for (std::size_t i = 0; i < axes && i < a.rank && i < b.rank; ++i)
    if (a[i] != b[i]) return false;
  return true;
}
}  // namespace detail

/// The extent must be static and fit into an int. In a step, `shape_of(x)` yields run-time extents.
template <class Dims, int Axis>
struct extent_is_not_an_int
    : mistake<!axis_out_of_range<Dims, Axis>::value && !detail::is_int(Dims::spec[axis_number<Dims, Axis>])> {};

/// Returns the extent of an axis as a compile-time int, from the type of a tensor, a node, an expression or a dims
/// (like static_extent of std::mdspan): `static_extent<decltype(queries), -1>()` of `[batch, heads, 64]` is 64.
/// Negative axes count from the end.
template <class X, int Axis>
constexpr int static_extent() {
  using Dims = dims_t<std::remove_cvref_t<X>>;
  using mistake = first_mistake<axis_out_of_range<Dims, Axis>, extent_is_not_an_int<Dims, Axis>>;
  static_assert(correct<mistake>, "static_extent<X, axis>(): needs an axis of X whose extent is a number, not a name");
  if constexpr (correct<mistake>)
    return static_cast<int>(Dims::spec[axis_number<Dims, Axis>]);
  else
    return 1;
}

/// Matrices must be square: their last two extents are equal.
template <class Dims>
struct matrices_are_not_square : mistake<(Dims::rank < 2 || Dims::spec[Dims::rank - (Dims::rank < 2 ? 0 : 2)] !=
                                                                Dims::spec[Dims::rank - (Dims::rank < 1 ? 0 : 1)])> {};

/// The operation needs float or double.
template <class T>
struct not_floating : mistake<!std::is_floating_point_v<T>> {};

/// The first mistake in square matrices of float or double, if any.
template <class Expr>
using square_mistake = first_mistake<matrices_are_not_square<dims_t<Expr>>, not_floating<value_t<Expr>>>;

/// The operation needs a value of a graph, but the operand is a tensor.
template <class Expr>
struct value_not_in_a_graph : mistake<!Expr::symbolic> {};

/// The operation needs numbers, not bool.
template <class T>
struct elements_not_numeric : mistake<std::is_same_v<T, bool>> {};

namespace detail {

/// Returns a stand-in for a result after a mistake, so that one mistake prints one error. Its elements are of a type
/// that supports arithmetic.
template <class U, class Dims, class... Expr>
auto after_mistake(const Expr&...) {
  using T = std::conditional_t<is_storage_type<U>, float, U>;
  if constexpr (([] {
                  if constexpr (Expression<Expr>)
                    return Expr::symbolic;
                  else
                    return false;
                }() ||
                 ...))
    return node<T, Dims>(symbol());
  else
    return tensor<T, Dims>(shape{}, {});
}
template <class Expr>
auto same_after_mistake(const Expr& e) {
  return after_mistake<value_t<Expr>, dims_t<Expr>>(e);
}

/// Calls f(operands), materialized, unless they have the mistake.
template <class Mistake, class Expr, class F>
auto unless(const Expr& e, const F& f) {
  if constexpr (correct<Mistake>)
    return f(materialize(e));
  else
    return same_after_mistake(e);
}
template <class Mistake, class A, class B, class F>
auto unless(const A& a, const B& b, const F& f) {
  if constexpr (correct<Mistake>)
    return f(materialize(a), materialize(b));
  else
    return after_mistake<value_t<A>, dims_t<A>>(a, b);
}

template <class Op, class T>
constexpr bool defined_for() {
  if constexpr (requires { Op::of_bools; })
    return std::is_same_v<T, bool>;
  else if constexpr (requires { Op::floating_only; })
    return std::is_floating_point_v<T>;
  else if constexpr (requires { Op::integral_only; })
    return std::is_integral_v<T> && (Op::takes_bool || !std::is_same_v<T, bool>);
  else if constexpr (requires { Op::predicate; } && !requires { Op::orders; })
    return std::is_arithmetic_v<T>;
  else
    return std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
}

/// The kinds of devices on which an operation runs: `using devices = kinds<cpu>`. The default is all.
template <class... Devices>
struct kinds {
  template <class D>
  static constexpr bool contains = (std::is_same_v<D, Devices> || ...);
};

template <class Op, class Device>
constexpr bool has_kernel() {
  if constexpr (requires { typename Op::devices; })
    return Op::devices::template contains<Device>;
  else
    return true;
}

}  // namespace detail

using detail::kinds;

}  // namespace weft
