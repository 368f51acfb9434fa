// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/combine.hpp>
#include <weft/device/cpu/dispatch.hpp>

/// Loops over rows that are written by index, and over the indices.
namespace weft::device {

/// The range of some indices, and whether they ascend.
template <class Index>
struct index_range {
  Index low, high;
  bool ascend;

  WEFT_LOOPS static index_range of(const Index* indices, std::size_t count) {
    Index low = indices[0], high = indices[0];
    std::size_t falls = 0;
    for (std::size_t k = 1; k < count; ++k) {
      const Index i = indices[k];
      low = i < low ? i : low;
      high = i > high ? i : high;
      falls += i < indices[k - 1];
    }
    return {low, high, falls == 0};
  }
};

/// Some rows to combine with rows of the result, in the order of the indices, by their first elements. Rows at
/// arbitrary places are prefetched.
template <class T, combine How>
struct rows_to_combine {
  static constexpr std::size_t most = 256, ahead = 6, line = 64 / sizeof(T), lines = 8;

  const T* x;
  T* y;
  std::size_t width;  ///< the elements of a row
  bool adjacent;      ///< true if the rows follow each other, so that the processor prefetches them
  std::size_t count = 0;
  std::size_t from[most] = {}, to[most] = {};

  void flush() {
    multiversioned_up_to_avx2([this] { combine_all(x, y, width); });
    count = 0;
  }

 private:
  WEFT_INLINE void combine_all(const T* rows, T* result, std::size_t n) const {
    if (n == 1) {
      for (std::size_t j = 0; j < count; ++j) result[to[j]] = combined<How>(result[to[j]], rows[from[j]]);
      return;
    }
    const std::size_t near = adjacent ? 0 : n < lines * line ? n : lines * line;
    for (std::size_t j = 0; j < count; ++j) {
      if (near > 0 && j + ahead < count)
        for (std::size_t i = 0; i < near; i += line) {
          __builtin_prefetch(rows + from[j + ahead] + i);
          __builtin_prefetch(result + to[j + ahead] + i, 1);
        }
      T* const b = result + to[j];
      const T* const a = rows + from[j];
      WEFT_VECTORIZE
      for (std::size_t i = 0; i < n; ++i) b[i] = combined<How>(b[i], a[i]);
    }
  }
};

}  // namespace weft::device
