// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/compiler.hpp>

namespace weft::detail {

inline constexpr std::size_t transpose_tile = 16;

/// Moves through a buffer, so that each cache line is touched once.
template <class T>
WEFT_INLINE void transpose_part(std::size_t rows, std::size_t columns, const T* from, std::size_t from_row, T* to,
                                std::size_t to_row) {
  T tile[transpose_tile * transpose_tile], line[transpose_tile];
  for (std::size_t i = 0; i < rows; ++i)
    __builtin_memcpy(tile + i * transpose_tile, from + i * from_row, columns * sizeof(T));
  for (std::size_t j = 0; j < columns; ++j) {
    for (std::size_t i = 0; i < rows; ++i) line[i] = tile[i * transpose_tile + j];
    __builtin_memcpy(to + j * to_row, line, rows * sizeof(T));
  }
}
/// Writes the transpose of a matrix.
template <class T>
void transpose_elements(std::size_t rows, std::size_t columns, const T* from, std::size_t from_row, T* to,
                        std::size_t to_row) {
  constexpr std::size_t side = transpose_tile;
  for (std::size_t i = 0; i < rows; i += side)
    for (std::size_t j = 0; j < columns; j += side) {
      const T* const x = from + i * from_row + j;
      T* const y = to + j * to_row + i;
      const std::size_t high = rows - i, wide = columns - j;
      if (high >= side && wide >= side)
        transpose_part(side, side, x, from_row, y, to_row);
      else
        transpose_part(high < side ? high : side, wide < side ? wide : side, x, from_row, y, to_row);
    }
}

}  // namespace weft::detail
