// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>

#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/arrays/merge_axes.hpp>

/// Stacking, repetition and unstacking of arrays. Not part of <weft/weft.hpp>. For all element types.
namespace weft {

/// Stacked operands must have equal extents.
template <class A, class B>
struct stacked_extents_differ : mistake<!(A::spec == B::spec)> {};

/// tile takes one count, 1 or more, for each axis, and needs room for one more axis.
template <class Dims, int... Repeats>
struct repeats_do_not_fit
    : mistake<(sizeof...(Repeats) != Dims::rank || Dims::rank >= max_rank || !((Repeats > 0) && ...))> {};

/// Joins operands of equal extents along a new axis (tf.stack): `stack<0>(a, b)` of two `[n, 3]` is `[2, n, 3]`, and
/// `stack<-1>(a, b)` is `[n, 3, 2]`. Throws invalid_argument if run-time extents of one name differ.
template <int Axis, Expression First, Expression... Rest>
[[nodiscard]] auto stack(const First& first, const Rest&... rest) {
  using D = dims_t<First>;
  using mistake = first_mistake<new_axis_out_of_range<D, Axis>, element_types_differ<value_t<First>, value_t<Rest>>...,
                                stacked_extents_differ<D, dims_t<Rest>>...>;
  static_assert(correct<mistake>, "stack: needs an axis of the result, and operands of one type and equal extents");
  if constexpr (correct<mistake>)
    return concat<Axis>(expand_dims<Axis>(first), expand_dims<Axis>(rest)...);
  else
    return detail::after_mistake<value_t<First>, D>(first, rest...);
}

/// Returns the slices along an axis of static extent, without the axis, as a tuple (tf.unstack): `auto [a, b] =
/// unstack<0>(x)` of `[2, n, 3]` yields two `[n, 3]`.
template <int Axis, Expression Expr>
[[nodiscard]] auto unstack(const Expr& e) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, extent_is_not_an_int<D, Axis>>;
  static_assert(correct<mistake>, "unstack: needs an axis whose extent is a number, not a name");
  if constexpr (correct<mistake>)
    return std::apply([](const auto&... part) { return std::tuple{squeeze<Axis>(part)...}; },
                      split<Axis, static_extent<Expr, Axis>()>(e));
  else
    return std::tuple{detail::same_after_mistake(e)};
}

namespace detail {

/// Repeats the operand along a new axis.
template <std::size_t Axis, int Count, class X>
auto repeated(const X& x) {
  const auto one = expand_dims<static_cast<int>(Axis)>(x);
  using Many = with_extent<dims_t<decltype(one)>, Axis, Count>;
  return call_operation<broadcast_to_op, value_t<X>, Many>(resized(extents_of(one), Axis, Count), {}, one);
}

template <std::size_t Axis>
auto tile_axes(const Expression auto& x) {
  return x;
}
/// Repeats the operand along `Axis` and the following axes.
template <std::size_t Axis, int Repeats, int... More, class X>
auto tile_axes(const X& x) {
  if constexpr (Repeats == 1)
    return tile_axes<Axis + 1, More...>(x);
  else
    return tile_axes<Axis + 1, More...>(merge_axes<Axis>(repeated<Axis, Repeats>(x)));
}

}  // namespace detail

/// Repeats the operand along each axis (tf.tile, numpy.tile): `tile<2, 3>(x)` of `[n, 4]` is `[2 * n, 12]`. Takes one
/// count, 1 or more, for each axis; the operand has at most 7 axes.
template <int... Repeats, Expression Expr>
[[nodiscard]] auto tile(const Expr& e) {
  using mistake = repeats_do_not_fit<dims_t<Expr>, Repeats...>;
  static_assert(correct<mistake>,
                "tile: takes a number of copies, at least 1, for each axis: tile<2, 1>(x) for two axes");
  if constexpr (correct<mistake>)
    return detail::tile_axes<0, Repeats...>(materialize(e));
  else
    return detail::same_after_mistake(e);
}

/// Repeats each element along an axis (tf.repeat, numpy.repeat, torch.repeat_interleave): `repeat<0, 2>(x)` of `[n, 4]`
/// is
/// `[2 * n, 4]`, with each row twice. The count is 1 or more; the operand has at most 7 axes.
template <int Axis, int Count, Expression Expr>
[[nodiscard]] auto repeat(const Expr& e) {
  using D = dims_t<Expr>;
  using mistake =
      first_mistake<axis_out_of_range<D, Axis>, repeats_do_not_fit<dims<1>, Count>, new_axis_out_of_range<D, -1>>;
  static_assert(correct<mistake>, "repeat: repeat<axis, count>(x) needs an axis of x, and a count of at least 1");
  if constexpr (correct<mistake>)
    return detail::merge_axes<axis_number<D, Axis>>(detail::repeated<axis_number<D, Axis> + 1, Count>(materialize(e)));
  else
    return detail::same_after_mistake(e);
}

WEFT_OTHER_CALLS(stack);    // the axis is a template argument, the operands are arguments: stack<0>(x, y)
WEFT_OTHER_CALLS(unstack);  // the axis is a template argument: auto [a, b] = unstack<0>(x)
WEFT_OTHER_CALLS(tile);     // repeats are template arguments, one for each axis: tile<2, 1>(x)
WEFT_OTHER_CALLS(repeat);   // axis and count are template arguments: repeat<0, 2>(x)

}  // namespace weft
