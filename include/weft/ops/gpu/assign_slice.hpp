// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/assign_slice.hpp>
#include <weft/ops/gpu/install.hpp>

/// GPU kernel that writes a slice of a variable.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct assign_slice_work {
  T* variable;
  const T* part;
  const void* begin;
  bool wide;
  divisor inner, extent;     ///< elements of a row; rows of the part along the axis
  divisor each;              ///< outer rows that begin at one index
  std::uint32_t whole_rows;  ///< rows of the variable along the axis

  WEFT_HOST_DEVICE void operator()(std::size_t at) const {
    const auto i = static_cast<std::uint32_t>(at), row = inner.divide(i), outer = extent.divide(row);
    const std::int64_t to = row - outer * extent.extent + weft::device::index_at(begin, wide, each.divide(outer));
    if (to >= 0 && to < static_cast<std::int64_t>(whole_rows))
      variable[(outer * whole_rows + static_cast<std::uint32_t>(to)) * inner.extent + i - row * inner.extent] = part[i];
  }
};

template <class T>
kernel* prepare_assign_slice(const prepare_context& p, device&) {
  using w = assign_slice_work<T>;
  using op = assign_slice_op<T>;
  check_size(op::name, p.inputs[0].extents);
  const std::size_t axis = attributes_of<op>(p.node).axis, n = p.inputs[1].extents.elements();
  const axis_rows whole(p.inputs[0].extents, axis), part(p.inputs[1].extents, axis);
  w work{};
  work.wide = p.inputs[2].type == dtype::int64;
  work.inner = divisor_for(part.inner);
  work.extent = divisor_for(part.extent);
  if (n > 0) work.each = divisor_for(whole.outer / static_cast<std::size_t>(p.inputs[2].extents.elements()));
  work.whole_rows = static_cast<std::uint32_t>(whole.extent);
  return make_each(p, str_cat({op::name, " of ", part.extent, " of ", whole.extent, " rows"}), work, n, &w::variable,
                   &w::part, &w::begin);
}

}  // namespace detail

template <class T>
struct kernels<assign_slice_op<T>> : installed<assign_slice_op<T>, detail::prepare_assign_slice<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
