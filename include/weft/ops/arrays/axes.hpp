// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/merge_axes.hpp>
#include <weft/ops/arrays/transpose.hpp>

/// Axes in another order, and joined. Not part of <weft/weft.hpp>. For all element types.
namespace weft {

/// The first joined axis must not follow the last.
template <class Dims, int First, int Last>
struct axes_not_in_order : mistake<(axis_number<Dims, First> > axis_number<Dims, Last>)> {};

/// Exchanges two axes (numpy.swapaxes, torch.transpose): `swapaxes<1, 2>(x)` of `[batch, n, heads, 8]` is `[batch,
/// heads, n, 8]`.
template <int A, int B, Expression Expr>
[[nodiscard]] auto swapaxes(const Expr& e) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, A>, axis_out_of_range<D, B>>;
  static_assert(correct<mistake>, "swapaxes: needs two axes of x: swapaxes<0, 1>(x)");
  if constexpr (correct<mistake>)
    return detail::transpose_by<detail::exchanged<axis_number<D, A>, axis_number<D, B>>>(e);
  else
    return detail::same_after_mistake(e);
}

/// Moves an axis to another position among the others (numpy.moveaxis, torch.movedim): `moveaxis<-1, 0>(x)` of `[h, w,
/// 3]` is `[3, h, w]`.
template <int From, int To, Expression Expr>
[[nodiscard]] auto moveaxis(const Expr& e) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, From>, axis_out_of_range<D, To>>;
  static_assert(correct<mistake>, "moveaxis: needs two axes of x, from and to: moveaxis<-1, 0>(x)");
  if constexpr (correct<mistake>)
    return detail::transpose_by<detail::moved<axis_number<D, From>, axis_number<D, To>>>(e);
  else
    return detail::same_after_mistake(e);
}

/// Joins adjacent axes from `First` to `Last`, both included (torch.flatten): `flatten<1>(x)` of `[batch, 4, 4, 8]` is
/// `[batch, 128]`, and `flatten<0, 1>(x)` of `[n, 3, 8]` is `[3 * n, 8]`. No elements are copied.
template <int First = 0, int Last = -1, Expression Expr>
[[nodiscard]] auto flatten(const Expr& e) {
  using D = dims_t<Expr>;
  using mistake =
      first_mistake<axis_out_of_range<D, First>, axis_out_of_range<D, Last>, axes_not_in_order<D, First, Last>>;
  static_assert(correct<mistake>, "flatten: flatten<first, last>(x) needs two axes of x, in their order");
  if constexpr (correct<mistake>) {
    constexpr std::size_t first = axis_number<D, First>, last = axis_number<D, Last>;
    return detail::merge_axes<first, last - first + 1>(materialize(e));
  } else {
    return detail::same_after_mistake(e);
  }
}

WEFT_OTHER_CALLS(swapaxes);  // axes are template arguments: swapaxes<0, 1>(x)
WEFT_OTHER_CALLS(moveaxis);  // axes are template arguments: moveaxis<-1, 0>(x)
WEFT_OTHER_CALLS(flatten);   // axes are template arguments: flatten<1>(x)

}  // namespace weft
