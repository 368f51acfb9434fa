// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/reshape.hpp>

/// Views of images and volumes in which adjacent axes are one.
namespace weft::detail {

/// D with the axes `Axis` and `Axis + 1` merged.
template <class D, std::size_t Axis, class Indices>
struct merged_dims;
template <class D, std::size_t Axis, std::size_t... Index>
struct merged_dims<D, Axis, indices<Index...>> {
  template <std::size_t Here>
  static constexpr auto extent() {
    if constexpr (Here < Axis)
      return extent_at<D, Here>::value;
    else if constexpr (Here > Axis)
      return extent_at<D, Here + 1>::value;
    else if constexpr (D::spec[Axis] >= 0 && D::spec[Axis + 1] >= 0)
      return canonical<D::spec[Axis] * D::spec[Axis + 1]>();
    else
      return extent_of<D, Axis>() * extent_of<D, Axis + 1>();
  }
  using type = dims_t<dims<extent<Index>()...>>;
};

/// Returns the elements of x, without copying them, under extents that x determines.
template <class To, class X>
auto viewed(const X& x, const shape& extents) {
  if constexpr (X::symbolic && !To::is_static) remember_extents<To>(*x.erased().builder());
  return under_extents<To>(x, extents);
}

/// Merges two adjacent axes: `[n, h, w, c]` becomes `[n, h * w, c]` for axis 1.
template <std::size_t Axis, class X>
auto merge_axes(const X& x) {
  using To = typename merged_dims<dims_t<X>, Axis, typename make_indices<dims_t<X>::rank - 1>::type>::type;
  const shape& from = extents_of(x);
  shape to;
  for (std::size_t i = 0; i < from.rank; ++i)
    if (i == Axis + 1)
      to[Axis] *= X::symbolic ? 1 : from[i];  // a node's named extents are codes
    else
      to.push_back(from[i]);
  return viewed<To>(x, to);
}

}  // namespace weft::detail
