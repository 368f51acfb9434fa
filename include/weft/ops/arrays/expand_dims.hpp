// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

WEFT_OTHER_CALLS(expand_dims);  // the axis is a template argument: expand_dims<0>(x), expand_dims<-1>(x)
WEFT_OTHER_CALLS(squeeze);      // axes are template arguments: squeeze<0>(x), squeeze(x) for all of extent 1

/// The new axis must be an axis of the result, which has at most 8 axes.
template <class Dims, int Axis>
struct new_axis_out_of_range : mistake<(Axis<-static_cast<int>(Dims::rank) - 1 || Axis> static_cast<int>(Dims::rank) ||
                                        Dims::rank == max_rank)> {};

namespace detail {

constexpr std::uint32_t axes_of_one(const shape& extents) {
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < extents.rank; ++i)
    if (extents[i] == 1) mask |= std::uint32_t{1} << i;
  return mask;
}
template <class Dims, int... Axes>
constexpr std::uint32_t squeezed_axes() {
  if constexpr (sizeof...(Axes) == 0)
    return axes_of_one(Dims::spec);
  else
    return axis_mask<Axes...>(Dims::rank);
}

/// The axes of x, and one of extent 1.
template <std::size_t Axis, std::size_t Rank>
struct one_inserted {
  static constexpr std::size_t axis(std::size_t i) { return i == Axis ? Rank : i - (i > Axis); }
};

}  // namespace detail

/// A removed axis must have the static extent 1.
template <class Dims, int... Axes>
struct squeezed_extent_is_not_one
    : mistake<(detail::squeezed_axes<Dims, Axes...>() & ~detail::axes_of_one(Dims::spec)) != 0> {};

/// The first mistake in a squeeze, if any.
template <class Dims, int... Axes>
using squeeze_mistake = first_mistake<axis_out_of_range<Dims, Axes...>, squeezed_extent_is_not_one<Dims, Axes...>>;

/// Inserts an axis of extent 1 in front of the axis with this number, or at the end for -1 (tf.expand_dims).
/// `expand_dims<0>(x)` of `[n, 3]` is `[1, n, 3]`, and `expand_dims<-1>(x)` is `[n, 3, 1]`. No elements are copied.
template <int Axis, Expression Expr>
[[nodiscard]] auto expand_dims(const Expr& e) {
  using D = dims_t<Expr>;
  static_assert(correct<new_axis_out_of_range<D, Axis>>,
                "expand_dims: the axis must be one of the result's: expand_dims<0>(x), expand_dims<-1>(x)");
  if constexpr (!correct<new_axis_out_of_range<D, Axis>>) {
    return detail::after_mistake<value_t<Expr>, D>(e);
  } else {
    constexpr auto axis = static_cast<std::size_t>(Axis < 0 ? Axis + static_cast<int>(D::rank) + 1 : Axis);
    return detail::under_axes<detail::one_inserted<axis, D::rank>, D::rank + 1>(e);
  }
}

/// Removes the given axes, which must have extent 1, or all axes of extent 1 if none are given (tf.squeeze): for `[1,
/// n, 1]`, `squeeze<0>(x)` is `[n, 1]` and `squeeze(x)` is `[n]`. Never removes dynamic extents. No elements are
/// copied.
template <int... Axes, Expression Expr>
[[nodiscard]] auto squeeze(const Expr& e) {
  using D = dims_t<Expr>;
  using mistake = squeeze_mistake<D, Axes...>;
  static_assert(correct<mistake>, "squeeze: squeeze<axis>(x) removes axes of extent 1; use reshape for others");
  if constexpr (!correct<mistake>)
    return detail::after_mistake<value_t<Expr>, D>(e);
  else
    return detail::without<detail::squeezed_axes<D, Axes...>()>(e);
}

}  // namespace weft
