// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/reshape.hpp>

namespace weft::detail {

/// Returns the elements of a node or a tensor with extents To, computed by `extents(shape)` over tensors. Throws
/// invalid_argument, in a graph when a step runs, if a quotient of extents is not a whole number.
template <class To, class X, class F>
auto regrouped(const X& x, F extents) {
  if constexpr (X::symbolic) {
    remember_extents<To>(*x.erased().builder());
    return under_extents<To>(x, To::spec);
  } else {
    const shape to = extents(x.extents());
    check_elements_kept(x.extents(), to);
    return under_extents<To>(x, to);
  }
}

}  // namespace weft::detail
