// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/strided_walk.hpp>
#include <weft/device/strides.hpp>

/// Transposes, slices, concatenations and other copies of frozen models.
namespace weft::frozen {

/// Copies a box of elements of `size` bytes; the strides of both sides are counted in elements.
inline void copy(shape extents, const void* from, device::operand from_stride, void* to, device::operand to_stride,
                 std::size_t size) {
  if (extents.elements() == 0) return;
  device::operand ends[] = {from_stride, to_stride};
  device::merge_axes(extents, ends, 2);
  if (extents.rank == 0) extents.push_back(1), ends[0].stride[0] = ends[1].stride[0] = 1;
  const device::detail::strided_walk walk{extents, ends[0].stride, ends[1].stride};
  walk.copy(static_cast<const std::byte*>(from), static_cast<std::byte*>(to), extents[0], size);
}

}  // namespace weft::frozen
