// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/tensor/dtype.hpp>
#include <weft/tensor/shape.hpp>

namespace weft::device {

/// How a loop traverses an operand: its element type and, for each axis of the iteration space, the distance between
/// adjacent elements, in elements. The stride is 0 along axes that are broadcast or reduced.
struct operand {
  dtype type;
  std::int64_t stride[max_rank];
};

/// Returns row-major strides of `inner` in the iteration space `outer`, aligned at the last axis.
inline operand broadcast_operand(dtype type, const shape& inner, const shape& outer) {
  operand o{type, {}};
  std::int64_t step = 1;
  for (std::size_t i = 1; i <= inner.rank; ++i) {
    const auto extent = inner[inner.rank - i];
    o.stride[outer.rank - i] = extent == 1 ? 0 : step;
    step *= extent;
  }
  return o;
}

/// Returns the strides of a reduction's result, which keeps the axes of the iteration space in `kept`.
inline operand reduced_operand(dtype type, const shape& space, const bool* kept) {
  operand o{type, {}};
  std::int64_t step = 1;
  for (std::size_t i = space.rank; i-- > 0;) {
    if (!kept[i]) continue;
    o.stride[i] = space[i] == 1 ? 0 : step;
    step *= space[i];
  }
  return o;
}

/// Removes axes of extent 1, and merges adjacent axes that are contiguous for every operand.
inline void merge_axes(shape& space, operand* operands, std::size_t count) {
  const shape all = space;
  space = {};
  for (std::size_t axis = 0; axis < all.rank; ++axis) {
    if (all[axis] == 1) continue;
    const std::size_t last = space.rank;
    bool joins = last > 0;
    for (std::size_t k = 0; joins && k < count; ++k)
      joins = operands[k].stride[last - 1] == operands[k].stride[axis] * all[axis];
    if (joins)
      space[last - 1] *= all[axis];
    else
      space.push_back(all[axis]);
    for (std::size_t k = 0; k < count; ++k) operands[k].stride[space.rank - 1] = operands[k].stride[axis];
  }
}

}  // namespace weft::device
