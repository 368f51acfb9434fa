// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/range.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

namespace weft::detail {

/// Returns 0, 1, 2, ... of extents D, one axis: in the graph of x or, over tensors, `count` numbers.
template <class T, class D, class X>
auto counted_from_0([[maybe_unused]] const X& x, [[maybe_unused]] std::int64_t count) {
  if constexpr (X::symbolic) {
    gpu::compile_kernels<range_op, T>();
    op_builder& where = *x.erased().builder();
    remember_extents<D>(where);
    return make_node<T, D, device_t<X>>(record_range(where, {dtype_of<T>, D::spec}, T(0), T(1)));
  } else {
    auto numbers = make_tensor<T, D, device_t<X>>(shape(count), uninitialized{});
    for (std::int64_t i = 0; i < count; ++i) numbers.data()[i] = static_cast<T>(i);
    return numbers;
  }
}

/// Returns 0, 1, 2, ... along an axis of x.
template <class T, std::size_t Axis, class X>
auto counted_along(const X& x) {
  return counted_from_0<T, dims<extent_at<dims_t<X>, Axis>::value>>(x, extents_of(x)[Axis]);
}

}  // namespace weft::detail
