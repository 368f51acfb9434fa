// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/counted.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/ops/index/boolean_mask.hpp>

/// Positions of true elements, and values in their place. Not part of <weft/weft.hpp>.
namespace weft {

/// A scalar has no indices.
template <class Dims>
struct mask_is_a_scalar : mistake<Dims::rank == 0> {};

namespace detail {

/// Returns the extent of an axis of x: a number, or a scalar that a step computes.
template <std::size_t Axis, class X>
auto index_extent(const X& x) {
  if constexpr (!X::symbolic || dims_t<X>::spec[Axis] >= 0)
    return static_cast<std::int32_t>(extents_of(x)[Axis]);
  else
    return let(cast<std::int32_t>(reshape<dims<>>(slice<0, static_cast<int>(Axis), 1>(shape_of(x)))));
}

/// Returns the columns of the indices of elements by their number among all, the axes up to `Axis`.
template <std::size_t Axis, class X, class Numbers, class... Columns>
auto index_columns(const X& x, const Numbers& numbers, const Columns&... columns) {
  if constexpr (Axis == 0) {
    return stack<1>(numbers, columns...);
  } else {
    const auto extent = index_extent<Axis>(x);
    const auto above = materialize(numbers / extent);
    return index_columns<Axis - 1>(x, above, materialize(numbers - above * extent), columns...);
  }
}

}  // namespace detail

/// Returns the indices of the true elements in row-major order, std::int32_t `[count, rank]` (tf.where with one
/// argument, torch.nonzero, numpy.argwhere); for numbers, of `nonzero(x != 0)`. In a graph, the result is a bounded
/// value (ops/bounded.hpp) with a row for each element; over tensors, it has `count` rows. For one axis, `gather_nd(x,
/// nonzero(mask).values)` selects what boolean_mask does. `Count` names the number of rows: `nonzero<dyn<"found">>(m)`.
template <auto Count = dyn<"count">, Expression Mask>
[[nodiscard]] auto nonzero(const Mask& mask) {
  using D = dims_t<Mask>;
  using mistake = first_mistake<mask_is_not_bool<value_t<Mask>>, mask_is_a_scalar<D>>;
  static_assert(correct<mistake>, "nonzero: needs a mask of bool with one axis or more: nonzero(x != 0)");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<std::int32_t, D>(mask);
  } else {
    const auto m = materialize(mask);
    const auto line = detail::flattened(m);
    const auto found = boolean_mask<Count>(detail::counted_along<std::int32_t, 0>(line), line);
    if constexpr (Mask::symbolic) {
      const auto all = detail::index_columns<D::rank - 1>(m, found.values);
      return bounded<std::remove_const_t<decltype(all)>, dims<Count, static_cast<int>(D::rank)>>{all, found.count};
    } else {
      return detail::index_columns<D::rank - 1>(m, found);
    }
  }
}

/// Returns x with a number or a scalar in place of the elements for which the mask is true (torch.masked_fill). The
/// mask broadcasts against x.
template <Expression Expr, Expression Mask, class With>
[[nodiscard]] auto masked_fill(const Expr& x, const Mask& mask, const With& value) {
  using T = value_t<Expr>;
  using mistake = mask_is_not_bool<value_t<Mask>>;
  static_assert(correct<mistake>, "masked_fill: needs a mask of bool, such as x > 0");
  if constexpr (!correct<mistake>)
    return detail::same_after_mistake(x);
  else if constexpr (Expression<With>)
    return select(mask, value, x);
  else
    return select(mask, static_cast<T>(value), x);
}

WEFT_OTHER_CALLS(nonzero);  // takes one mask: nonzero(x != 0); select(c, a, b) chooses between elements

}  // namespace weft
