#pragma once

#include <cstddef>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/thread_pool.hpp>

/// From one element type to another, in vectors: what computes with half and bfloat16 in float begins and ends with it.
namespace weft::detail {

/// Rows of one matrix into another, element by element.
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

/// To float, close together.
template <class T>
void widen(std::size_t rows, std::size_t columns, const T* from, std::size_t from_row, float* to, thread_pool* pool) {
  convert_rows(rows, columns, from, from_row, to, columns, pool, [](T x, float) { return static_cast<float>(x); });
}

/// As many elements, one after another.
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
/// Back from float, rounded.
template <class T>
void narrow(std::size_t n, const float* from, T* to, thread_pool* pool) {
  convert(n, from, to, pool, [](float x, T) { return T(x); });
}

}  // namespace weft::detail
