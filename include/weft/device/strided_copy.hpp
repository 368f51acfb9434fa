// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/strides.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/text.hpp>

namespace weft {

/// A copy of elements from an operand of a kernel to a result, both traversed by strides. Strides and offsets are
/// counted in elements; a stride of 0 repeats, and a negative stride goes backwards.
struct strided_region {
  std::uint32_t from = 0, to = 0;  ///< indices of the operand and the result
  shape extents;                   ///< of the copied box
  std::int64_t from_offset = 0, to_offset = 0;
  device::operand ends[2]{};  ///< the operand, the result

  const std::int64_t* from_stride() const { return ends[0].stride; }
  const std::int64_t* to_stride() const { return ends[1].stride; }

  /// Removes axes of extent 1, and merges adjacent axes that are contiguous on both sides.
  void merge_axes() { device::merge_axes(extents, ends, 2); }

  /// Returns the operand's innermost axis if it differs from the result's, otherwise the rank. Requires merged axes.
  std::size_t turned_from() const {
    const std::size_t rank = extents.rank;
    if (rank < 2 || to_stride()[rank - 1] != 1 || from_stride()[rank - 1] == 1) return rank;
    std::size_t axis = 0;
    while (axis < rank && from_stride()[axis] != 1) ++axis;
    return axis;
  }

  /// Moves an axis to the last position but one. The order of a box's axes does not matter.
  void move_inwards(std::size_t axis) {
    for (; axis + 2 < extents.rank; ++axis) {
      std::swap(extents[axis], extents[axis + 1]);
      for (device::operand& end : ends) std::swap(end.stride[axis], end.stride[axis + 1]);
    }
  }

  /// Converts to elements that are `wide` times as large; returns false if these do not stay contiguous. Requires
  /// merged axes.
  bool count_in(std::int64_t wide) {
    const std::size_t rank = extents.rank, last = rank - 1;
    if (rank == 0 || from_stride()[last] != 1 || to_stride()[last] != 1) return false;
    std::int64_t rest = (extents[last] | from_offset | to_offset) & (wide - 1);
    for (std::size_t axis = 0; axis < last; ++axis) rest |= (from_stride()[axis] | to_stride()[axis]) & (wide - 1);
    if (rest != 0) return false;
    extents[last] /= wide, from_offset /= wide, to_offset /= wide;
    for (device::operand& end : ends)
      for (std::size_t axis = 0; axis < last; ++axis) end.stride[axis] /= wide;
    return true;
  }
};

/// The work of an operation that only moves elements. If the results have elements outside all regions, they are filled
/// first; then the regions, which do not overlap, are copied.
struct strided_copies {
  dtype type{};
  bool fills = false;
  std::uint64_t fill = 0;  ///< the bits of an element
  sequence<strided_region> regions;

  explicit strided_copies(dtype t) : type(t) {}
  /// Copies one region, of the given extents, from the first operand to the first result.
  strided_copies(dtype t, const shape& extents, const device::operand& from, const device::operand& to) : type(t) {
    regions.push_back({0, 0, extents, 0, 0, {from, to}});
  }

  std::string describe(const char* operation) const {
    std::size_t elements = 0;
    for (const strided_region& r : regions) elements += r.extents.elements();
    return str_cat(
        {operation, " of ", elements, " elements in ", regions.size(), regions.size() == 1 ? " box" : " boxes"});
  }
};

}  // namespace weft
