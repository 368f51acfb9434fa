// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>

/// Kernels that move elements by strides (device/strided_copy.hpp).
namespace weft::gpu {

#if WEFT_COMPILES_FOR_GPU

/// Copies a box of elements, one for each thread.
template <class T>
struct strided_copy_body : plain_body {
  const T* from;
  T* to;
  std::uint32_t elements, from_offset, to_offset;
  walk<2> where;  ///< of operand and result

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads) {
      std::uint32_t offsets[] = {from_offset, to_offset};
      where.add_offsets(i, offsets);
      to[offsets[1]] = from[offsets[0]];
    }
  }
};

/// Copies a box if the innermost axes of operand and result differ: moves squares of 32 x 32 elements, read along one
/// axis and written along the other, each by adjacent threads. `outer` covers the remaining axes.
template <class T>
struct transpose_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 2;
  static constexpr std::uint32_t side = 32;
  struct block_memory {
    T tile[side][side + 1];  // padded, so that a column is in 32 different banks
  };
  using thread_memory = nothing;

  const T* from;
  T* to;
  std::uint32_t rows, columns;  ///< columns are contiguous in the operand, rows in the result
  std::uint32_t row_stride;     ///< of a row in the operand
  std::uint32_t column_stride;  ///< of a column in the result
  std::uint32_t from_offset, to_offset;
  divisor tiles_across, tiles_down;
  walk<2> outer;

  template <int Phase>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, block_memory& ours) const {
    const std::uint32_t down = tiles_across.divide(at.block), column = (at.block - down * tiles_across.extent) * side;
    const std::uint32_t index = tiles_down.divide(down), row = (down - index * tiles_down.extent) * side;
    std::uint32_t offsets[] = {from_offset, to_offset};
    outer.add_offsets(index, offsets);
    const std::uint32_t x = at.thread % side;
    for (std::uint32_t y = at.thread / side; y < side; y += threads / side) {
      if constexpr (Phase == 0) {
        if (column + x < columns && row + y < rows)
          ours.tile[y][x] = from[offsets[0] + (row + y) * row_stride + column + x];
      } else {
        if (column + y < columns && row + x < rows)
          to[offsets[1] + (column + y) * column_stride + row + x] = ours.tile[x][y];
      }
    }
  }
};

/// Writes one element everywhere.
template <class T>
struct splat_work {
  T* to;
  T element;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const { to[i] = element; }
};

#endif

}  // namespace weft::gpu
