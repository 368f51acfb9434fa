// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/arrays/slice_at.hpp>
#include <weft/ops/gpu/install.hpp>

/// GPU kernels of slice_at and its transpose.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// Copies the element `begin` further along the axis or, if `back`, before it; writes 0 if there is none.
template <class T>
struct slice_at_work {
  const T* x;
  T* y;
  const void* begin;
  bool wide, back;
  divisor inner, extent;   ///< elements of a row; rows of the result along the axis
  std::uint32_t operands;  ///< rows of the operand along the axis

  WEFT_HOST_DEVICE void operator()(std::size_t at) const {
    const auto i = static_cast<std::uint32_t>(at), row = inner.divide(i), outer = extent.divide(row);
    const std::int64_t first = weft::device::index_at(begin, wide, 0), k = row - outer * extent.extent,
                       from = back ? k - first : k + first;
    y[i] = from < 0 || from >= static_cast<std::int64_t>(operands)
               ? T()
               : x[(outer * operands + static_cast<std::uint32_t>(from)) * inner.extent + i - row * inner.extent];
  }
};

template <class T, class Op>
kernel* prepare_slice_at(const prepare_context& p, device&) {
  using w = slice_at_work<T>;
  check_size(Op::name, p.inputs[0].extents);
  check_size(Op::name, p.outputs[0].extents);
  const std::size_t axis = attributes_of<Op>(p.node).axis;
  const axis_rows to(p.outputs[0].extents, axis), from(p.inputs[0].extents, axis);
  w work{};
  work.wide = p.inputs[1].type == dtype::int64;
  work.back = std::is_same_v<Op, pad_at_op<T>>;
  work.inner = divisor_for(to.inner);
  work.extent = divisor_for(to.extent);
  work.operands = static_cast<std::uint32_t>(from.extent);
  return make_each(p, str_cat({Op::name, " of ", to.extent, " and ", from.extent, " rows"}), work,
                   p.outputs[0].extents.elements(), &w::x, &w::begin, &w::y);
}

}  // namespace detail

template <class T>
struct kernels<slice_at_op<T>> : installed<slice_at_op<T>, detail::prepare_slice_at<T, slice_at_op<T>>> {
  kernels() {
    if constexpr (is_differentiable<T>) install<pad_at_op<T>>({.prepare = detail::prepare_slice_at<T, pad_at_op<T>>});
  }
};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
