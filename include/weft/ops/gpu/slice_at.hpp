// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/arrays/slice_at.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>

/// GPU kernels of slice_at and its transpose.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// Copies the element `begin` further along the axis or, if `back`, before it; writes 0 if there is none.
template <class T>
struct slice_at_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  const T* x;
  T* y;
  const void* begin;
  bool wide, back;
  divisor inner, extent;   ///< elements of a row; rows of the result along the axis
  std::uint32_t operands;  ///< rows of the operand along the axis
  std::uint32_t elements;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::int64_t first = weft::device::index_at(begin, wide, 0);
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads) {
      const std::uint32_t row = inner.divide(i), outer = extent.divide(row);
      const std::int64_t k = row - outer * extent.extent, from = back ? k - first : k + first;
      y[i] = from < 0 || from >= static_cast<std::int64_t>(operands)
                 ? T()
                 : x[(outer * operands + static_cast<std::uint32_t>(from)) * inner.extent + i - row * inner.extent];
    }
  }
};

template <class T, class Op>
kernel* prepare_slice_at(const prepare_context& p, device&) {
  using body = slice_at_body<T>;
  static const function code = function_of<body>(Op::name);
  check_size(Op::name, p.inputs[0].extents);
  check_size(Op::name, p.outputs[0].extents);
  const axis_rows to(p.outputs[0].extents, attributes_of<Op>(p.node).axis),
      from(p.inputs[0].extents, attributes_of<Op>(p.node).axis);
  auto* k = new launch_kernel(str_cat({Op::name, " of ", to.extent, " and ", from.extent, " rows"}));
  body b{};
  b.elements = static_cast<std::uint32_t>(p.outputs[0].extents.elements());
  if (b.elements == 0) return k;
  b.wide = p.inputs[1].type == dtype::int64;
  b.back = std::is_same_v<Op, pad_at_op<T>>;
  b.inner = divisor(static_cast<std::uint32_t>(to.inner));
  b.extent = divisor(static_cast<std::uint32_t>(to.extent));
  b.operands = static_cast<std::uint32_t>(from.extent);
  auto& l = add_body(*k, b, code, blocks_for(b.elements, 1));
  l.point(offset_in(b, b.x), p.input_slots[0]);
  l.point(offset_in(b, b.begin), p.input_slots[1]);
  l.point(offset_in(b, b.y), p.output_slots[0]);
  return k;
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
