// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/tensor/shape.hpp>

WEFT_COLD_BEGIN
namespace weft::device::detail {

/// Copies a box of elements between two arrays: whole rows by memcpy, transposes in squares that fit into the
/// first-level cache on both sides.
struct strided_walk {
  const shape& extents;
  const std::int64_t *from_stride, *to_stride;

  /// `outer`: the number of elements along the outermost axis.
  void copy(const std::byte* from, std::byte* to, std::int64_t outer, std::size_t size) const {
    switch (size) {
      case 1:
        return walk<std::uint8_t>(from, to, outer);
      case 2:
        return walk<std::uint16_t>(from, to, outer);
      case 4:
        return walk<std::uint32_t>(from, to, outer);
      default:
        return walk<std::uint64_t>(from, to, outer);
    }
  }

 private:
  template <class T>
  void walk(const std::byte* source, std::byte* target, std::int64_t outer) const {
    const T* from = reinterpret_cast<const T*>(source);
    T* to = reinterpret_cast<T*>(target);
    const std::size_t rank = extents.rank;
    if (rank == 1) return row(from, to, outer, from_stride[0], to_stride[0]);
    std::int64_t index[max_rank]{};
    const std::size_t rows = rank - 2;  // the last two axes are processed together
    for (;;) {
      plane(from, to, rows == 0 ? outer : extents[rows], extents[rows + 1], from_stride + rows, to_stride + rows);
      std::size_t axis = rows;
      for (;;) {
        if (axis-- == 0) return;
        from += from_stride[axis], to += to_stride[axis];
        const std::int64_t n = axis == 0 ? outer : extents[axis];
        if (++index[axis] < n) break;
        from -= from_stride[axis] * n, to -= to_stride[axis] * n;
        index[axis] = 0;
      }
    }
  }

  template <class T>
  static void row(const T* from, T* to, std::int64_t n, std::int64_t from_step, std::int64_t to_step) {
    if (from_step == 1 && to_step == 1) {
      __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }

  template <class T>
  static void plane(const T* from, T* to, std::int64_t rows, std::int64_t columns, const std::int64_t* from_step,
                    const std::int64_t* to_step) {
    if (from_step[0] != 1 || to_step[1] != 1 || from_step[1] == 1) {
      for (std::int64_t i = 0; i < rows; ++i)
        row(from + i * from_step[0], to + i * to_step[0], columns, from_step[1], to_step[1]);
      return;
    }
    constexpr std::int64_t side = 32;
    for (std::int64_t i0 = 0; i0 < rows; i0 += side)
      for (std::int64_t j0 = 0; j0 < columns; j0 += side) {
        const std::int64_t height = rows - i0 < side ? rows - i0 : side,
                           width = columns - j0 < side ? columns - j0 : side;
        const T* const x = from + i0 + j0 * from_step[1];
        T* const y = to + i0 * to_step[0] + j0;
        if (height == side && width == side)
          square(x, y, side, side, from_step[1], to_step[0]);
        else
          square(x, y, height, width, from_step[1], to_step[0]);
      }
  }

  template <class T>
  [[gnu::always_inline]] static void square(const T* x, T* y, std::int64_t height, std::int64_t width,
                                            std::int64_t from_step, std::int64_t to_step) {
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j) y[i * to_step + j] = x[i + j * from_step];
  }
};

}  // namespace weft::device::detail
WEFT_COLD_END
