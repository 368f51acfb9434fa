// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/config.hpp>
#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/loop.hpp>
#include <weft/error.hpp>
#include <weft/tensor/dims.hpp>

/// Positions of the elements of broadcast and reduced operands, in the 32-bit arithmetic of kernels.
namespace weft::gpu {

/// Computes n / extent without a division, for n below 2^31: multiply, add, shift.
struct divisor {
  std::uint32_t extent = 1, multiplier = 1, shift = 0;

  divisor() = default;
  explicit divisor(std::uint32_t d) : extent(d) {
    while ((std::uint64_t{1} << shift) < d) ++shift;
    multiplier = static_cast<std::uint32_t>(((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - d)) / d + 1);
  }
  WEFT_HOST_DEVICE std::uint32_t divide(std::uint32_t n) const {
#if defined(__CUDA_ARCH__)
    return (__umulhi(n, multiplier) + n) >> shift;
#else
    return (static_cast<std::uint32_t>((std::uint64_t{n} * multiplier) >> 32) + n) >> shift;
#endif
  }
};

/// Returns the divisor of an extent, which may be 0 if nothing is divided.
inline divisor divisor_for(std::size_t extent) { return divisor(static_cast<std::uint32_t>(extent > 0 ? extent : 1)); }

/// Maps the index of an element to its offset in each of `Operands` operands. Axes are listed from the innermost
/// outwards, each with the strides of all operands in elements.
template <int Operands>
struct walk {
  std::uint32_t rank = 0;
  divisor extents[max_rank];
  std::int32_t strides[max_rank][Operands > 0 ? Operands : 1]{};

  /// Adds the offsets of element `index`.
  WEFT_HOST_DEVICE void add_offsets(std::uint32_t index, std::uint32_t* offsets) const {
#if defined(__CUDA_ARCH__)
  #pragma unroll 1
#endif
    for (std::uint32_t axis = 0; axis < rank; ++axis) {
      std::uint32_t along = index;
      if (axis + 1 < rank) {
        index = extents[axis].divide(index);
        along -= index * extents[axis].extent;
      }
#if defined(__CUDA_ARCH__)
  #pragma unroll
#endif
      for (int k = 0; k < Operands; ++k) offsets[k] += along * static_cast<std::uint32_t>(strides[axis][k]);
    }
  }
};

/// An iteration space and its operands, on the host. merge_axes() joins axes that all operands traverse in the same
/// way.
struct iteration {
  shape space;
  weft::device::operand operands[2 * weft::device::max_operands + 2];
  std::size_t count = 0;

  void add(const weft::device::operand& o) { operands[count++] = o; }
  std::int64_t stride(std::size_t operand, std::size_t axis) const { return operands[operand].stride[axis]; }
  void merge_axes() { weft::device::merge_axes(space, operands, count); }
};

/// Fills a kernel's walk with the axes of a space in `mask`, for the first `Operands` operands.
template <int Operands>
void fill_walk(walk<Operands>& to, const shape& space, const weft::device::operand* operands, std::uint32_t mask) {
  to.rank = 0;
  for (std::size_t axis = space.rank; axis-- > 0;) {
    if (!((mask >> axis) & 1)) continue;
    to.extents[to.rank] = divisor(static_cast<std::uint32_t>(space[axis]));
    for (int k = 0; k < Operands; ++k) to.strides[to.rank][k] = static_cast<std::int32_t>(operands[k].stride[axis]);
    ++to.rank;
  }
}
template <int Operands>
void fill_walk(walk<Operands>& to, const iteration& from, std::uint32_t mask) {
  fill_walk(to, from.space, from.operands, mask);
}

/// The rows of axis_rows on a GPU.
struct row_places {
  std::uint32_t rows = 0, extent = 0;
  divisor inner;

  row_places() = default;
  explicit row_places(const axis_rows& r)
      : rows(static_cast<std::uint32_t>(r.rows())),
        extent(static_cast<std::uint32_t>(r.extent)),
        inner(static_cast<std::uint32_t>(r.inner)) {}

  /// Returns the start of a row.
  WEFT_HOST_DEVICE std::uint32_t start_of(std::uint32_t row) const {
    const std::uint32_t outer = inner.divide(row);
    return outer * extent * inner.extent + (row - outer * inner.extent);
  }
};

/// The division of rows among blocks if there are few rows: the elements of each block, and the number of blocks for a
/// row.
struct row_shares {
  std::uint32_t elements = 1, count = 1;

  row_shares(std::size_t blocks, std::size_t extent, std::size_t least) {
    constexpr std::size_t enough_blocks = 512;
    if (blocks == 0 || extent == 0) return;
    const std::size_t most = (extent + least - 1) / least, wanted = (enough_blocks + blocks - 1) / blocks;
    const std::size_t parts = most > wanted ? wanted : most, each = (extent + parts - 1) / parts;
    elements = static_cast<std::uint32_t>(each);
    count = static_cast<std::uint32_t>((extent + each - 1) / each);
  }
};

/// Throws unimplemented if the number of elements exceeds the kernels' 32-bit arithmetic.
inline void check_size(const char* operation, const shape& space) {
  if (space.elements() > 0x7fffffffu)
    throw error(error_code::unimplemented, operation,
                "a kernel for GPUs takes at most 2147483647 elements, not " + std::to_string(space.elements()) +
                    ": split the tensor, or place the operation on a CPU");
}

}  // namespace weft::gpu
