// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/thread_pool.hpp>

/// Vectorised conversion of element types, with which computations of half and bfloat16 in float begin and end.
namespace weft::detail {

/// Converts rows of one matrix to rows of another.
template <class F, class From, class To>
struct converted_rows {
  F convert;
  std::size_t rows, columns;
  const From* from;
  std::size_t from_row;
  To* to;
  std::size_t to_row;

  WEFT_INLINE void operator()() const {
    for (std::size_t i = 0; i < rows; ++i) {
      const From* const source = from + i * from_row;
      To* const target = to + i * to_row;
      WEFT_VECTORIZE
      for (std::size_t j = 0; j < columns; ++j) target[j] = convert(source[j], target[j]);
    }
  }
};

template <class From, class To, class F>
void convert_rows(std::size_t rows, std::size_t columns, const From* from, std::size_t from_row, To* to,
                  std::size_t to_row, thread_pool* pool, F convert) {
  const auto part = [&](std::size_t begin, std::size_t end) {
    multiversioned(converted_rows<F, From, To>{convert, end - begin, columns, from + begin * from_row, from_row,
                                               to + begin * to_row, to_row});
  };
  const std::size_t parts = rows * columns < 65536 ? 1 : (rows < 16 ? rows : 16);
  if (parts == 1 || pool == nullptr) return part(0, rows);
  pool->parallel_for(parts, [&](std::size_t i) { part(rows * i / parts, rows * (i + 1) / parts); });
}

/// Widens rows to float, without gaps.
template <class T>
void widen(std::size_t rows, std::size_t columns, const T* from, std::size_t from_row, float* to, thread_pool* pool) {
  convert_rows(rows, columns, from, from_row, to, columns, pool, [](T x, float) { return static_cast<float>(x); });
}

/// Converts n consecutive elements.
template <class From, class To, class F>
void convert(std::size_t n, const From* from, To* to, thread_pool* pool, F convert) {
  constexpr std::size_t row = 4096;
  const std::size_t rows = n / row, whole = rows * row;
  convert_rows(rows, row, from, row, to, row, pool, convert);
  convert_rows(1, n - whole, from + whole, 0, to + whole, 0, pool, convert);
}
template <class T>
void widen(std::size_t n, const T* from, float* to, thread_pool* pool) {
  convert(n, from, to, pool, [](T x, float) { return static_cast<float>(x); });
}
/// Rounds float back to T.
template <class T>
void narrow(std::size_t n, const float* from, T* to, thread_pool* pool) {
  convert(n, from, to, pool, [](float x, T) { return T(x); });
}

}  // namespace weft::detail
