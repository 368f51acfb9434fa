// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/elementwise/functions.hpp>

namespace weft::detail {

/// Converts a number or a scalar node.
template <class To, class X>
auto number_as(const X& x) {
  if constexpr (Expression<X>)
    return materialize(cast<To>(x));
  else
    return static_cast<To>(x);
}
/// Returns an extent as a number of type T or, if only a step knows it, as a scalar node.
template <class T, int Axis, class X>
auto extent_as(const X& x) {
  if constexpr (X::symbolic && dims_t<X>::spec[Axis] < 0)
    return materialize(cast<T>(reshape<dims<>>(slice<0, Axis, 1>(shape_of(x)))));
  else
    return static_cast<T>(extents_of(x)[Axis]);
}

}  // namespace weft::detail
