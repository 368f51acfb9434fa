// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/assign_slice.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>

/// GPU kernel that writes a slice of a variable.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct assign_slice_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  T* variable;
  const T* part;
  const void* begin;
  bool wide;
  divisor inner, extent;     ///< elements of a row; rows of the part along the axis
  std::uint32_t whole_rows;  ///< rows of the variable along the axis
  std::uint32_t elements;    ///< of the part

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::int64_t first = weft::device::index_at(begin, wide, 0);
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads) {
      const std::uint32_t row = inner.divide(i), outer = extent.divide(row);
      const std::int64_t to = row - outer * extent.extent + first;
      if (to >= 0 && to < static_cast<std::int64_t>(whole_rows))
        variable[(outer * whole_rows + static_cast<std::uint32_t>(to)) * inner.extent + i - row * inner.extent] =
            part[i];
    }
  }
};

template <class T>
kernel* prepare_assign_slice(const prepare_context& p, device&) {
  using body = assign_slice_body<T>;
  using op = assign_slice_op<T>;
  static const function code = function_of<body>(op::name);
  check_size(op::name, p.inputs[0].extents);
  const std::size_t axis = attributes_of<op>(p.node).axis;
  const axis_rows whole(p.inputs[0].extents, axis), part(p.inputs[1].extents, axis);
  auto* k = new launch_kernel(str_cat({op::name, " of ", part.extent, " of ", whole.extent, " rows"}));
  body b{};
  b.elements = static_cast<std::uint32_t>(p.inputs[1].extents.elements());
  if (b.elements == 0) return k;
  b.wide = p.inputs[2].type == dtype::int64;
  b.inner = divisor(static_cast<std::uint32_t>(part.inner));
  b.extent = divisor(static_cast<std::uint32_t>(part.extent));
  b.whole_rows = static_cast<std::uint32_t>(whole.extent);
  auto& l = add_body(*k, b, code, blocks_for(b.elements, 1));
  l.point(offset_in(b, b.variable), p.input_slots[0]);
  l.point(offset_in(b, b.part), p.input_slots[1]);
  l.point(offset_in(b, b.begin), p.input_slots[2]);
  return k;
}

}  // namespace detail

template <class T>
struct kernels<assign_slice_op<T>> : installed<assign_slice_op<T>, detail::prepare_assign_slice<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
