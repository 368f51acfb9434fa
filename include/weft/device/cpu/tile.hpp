// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>
#include <weft/tensor/dtype.hpp>

/// Tiles: the parts of an iteration space that a loop computes at once. Copies operands into tiles, and combines or
/// streams results out of them.
namespace weft::device {

/// How an output receives computed values: stored, combined if several have the same position, or discarded.
enum class reduce_op : unsigned char { store, sum, product, maximum, minimum, discard };

namespace detail {

inline constexpr std::size_t tile_bytes = 4096, slack = 16, fetched_ahead = 1024;

/// Prefetches the first bytes of the next read, since the hardware prefetcher does not cross a page.
inline void fetch(const std::byte* from) {
  for (std::size_t i = 0; i < fetched_ahead; i += 64) __builtin_prefetch(from + i);
}

/// Copies with non-temporal stores, because caches would read each line before it is overwritten. (Uses built-in
/// functions, because the header of the intrinsics takes a twentieth of the compile time of including Weft.)
inline void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__)
  typedef float vector __attribute__((vector_size(16)));
  std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % sizeof(vector);
  if (head > bytes) head = bytes;
  __builtin_memcpy(to, from, head);
  to += head, from += head, bytes -= head;
  for (; bytes >= sizeof(vector); to += sizeof(vector), from += sizeof(vector), bytes -= sizeof(vector)) {
    vector v;
    __builtin_memcpy(&v, from, sizeof v);
  #if defined(__clang__)
    __builtin_nontemporal_store(v, reinterpret_cast<vector*>(to));
  #else
    __builtin_ia32_movntps(reinterpret_cast<float*>(to), v);
  #endif
  }
#endif
  __builtin_memcpy(to, from, bytes);
}

/// Makes the writes of `stream` visible; call it before another thread reads them.
inline void finish_streams() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

/// Writes n copies of one element of 1, 2, 4 or 8 bytes.
inline void splat(std::size_t size, void* into, const void* element, std::size_t n) {
  typedef std::uint64_t vector __attribute__((vector_size(32)));
  vector v;
  for (std::size_t i = 0; i < sizeof v; i += size)
    __builtin_memcpy(reinterpret_cast<std::byte*>(&v) + i, element, size);
  multiversioned_up_to_avx2([&v, into, bytes = n * size] {
    std::byte* const to = static_cast<std::byte*>(into);  // null if `bytes` is 0
    const vector value = v;
    std::size_t at = 0;
    for (; bytes - at >= sizeof value; at += sizeof value) __builtin_memcpy(to + at, &value, sizeof value);
    for (std::size_t i = 0; at < bytes; ++at) to[at] = reinterpret_cast<const std::byte*>(&v)[i++];
  });
}

/// Writes `columns` copies of each of `rows` elements, which are `stride` apart. Stores whole vectors, so the buffer
/// needs `slack` more bytes than the copies.
template <class T>
void spread(void* into, const void* elements, std::int64_t stride, std::size_t rows, std::size_t columns) {
  typedef T vector __attribute__((vector_size(16)));
  const T* from = static_cast<const T*>(elements);
  T* to = static_cast<T*>(into);
  for (; rows > 0; --rows, from += stride, to += columns) {
    const vector v = vector{} + *from;
    for (std::size_t i = 0; i < columns; i += sizeof v / sizeof(T)) __builtin_memcpy(to + i, &v, sizeof v);
  }
}

inline void spread(std::size_t size, void* to, const void* from, std::int64_t stride, std::size_t rows,
                   std::size_t columns) {
  switch (size) {
    case 1:
      return spread<std::uint8_t>(to, from, stride, rows, columns);
    case 2:
      return spread<std::uint16_t>(to, from, stride, rows, columns);
    case 4:
      return spread<std::uint32_t>(to, from, stride, rows, columns);
    default:
      return spread<std::uint64_t>(to, from, stride, rows, columns);
  }
}

/// Calls memcpy, or copies inline if there are few bytes.
inline void copy_run(std::byte* to, const std::byte* from, std::size_t n) {
  if (n > 32) return static_cast<void>(__builtin_memcpy(to, from, n));
  const auto ends = [&](auto word) {  // both ends, which may overlap
    decltype(word) last;
    __builtin_memcpy(&word, from, sizeof word);
    __builtin_memcpy(&last, from + n - sizeof last, sizeof last);
    __builtin_memcpy(to, &word, sizeof word);
    __builtin_memcpy(to + n - sizeof last, &last, sizeof last);
  };
  struct sixteen {
    std::uint64_t half[2];
  };
  if (n >= 16) return ends(sixteen{});
  if (n >= 8) return ends(std::uint64_t{});
  if (n >= 4) return ends(std::uint32_t{});
  if (n >= 2) return ends(std::uint16_t{});
  if (n == 1) *to = *from;
}

/// Repeats the first n bytes so that there are `copies` of them in total.
inline void repeat(std::byte* to, std::size_t n, std::size_t copies) {
  const std::size_t all = n * copies;
  if (all <= 256)
    for (std::size_t at = n; at < all; at += n) copy_run(to + at, to, n);
  else
    for (std::size_t done = n; done < all; done *= 2)
      __builtin_memcpy(to + done, to, all - done < done ? all - done : done);
}

/// Fills rows x columns elements of `size` bytes from elements that are `row_stride` and `column_stride` apart; the
/// latter is 0 or 1.
inline void fill_tile(std::size_t size, std::byte* to, const std::byte* from, std::size_t rows, std::size_t columns,
                      std::int64_t row_stride, std::int64_t column_stride) {
  if (column_stride == 0) {
    if (row_stride == 0 || rows == 1) return splat(size, to, from, rows * columns);
    return spread(size, to, from, row_stride, rows, columns);
  }
  const std::size_t n = columns * size;
  if (row_stride == 0) {
    copy_run(to, from, n);
    return repeat(to, n, rows);
  }
  const std::int64_t step = row_stride * static_cast<std::int64_t>(size);
  for (; rows > 0; --rows, from += step, to += n) copy_run(to, from, n);
}

template <class T>
WEFT_HOST_DEVICE bool is_nan(T x) {
#if __FINITE_MATH_ONLY__ && !defined(__CUDA_ARCH__)
  if constexpr (T(0.5) != T(0)) return math::detail::is_nan(x);
#endif
  return x != x;
}

template <class T>
WEFT_HOST_DEVICE T merge(reduce_op how, T a, T b) {
  switch (how) {
    case reduce_op::sum:
      return static_cast<T>(wrapping(a) + wrapping(b));
    case reduce_op::product:
      return static_cast<T>(wrapping(a) * wrapping(b));
    case reduce_op::maximum:
      return b > a || is_nan(b) ? b : a;
    case reduce_op::minimum:
      return b < a || is_nan(b) ? b : a;
    default:
      return b;
  }
}

/// Combines the elements of an array pairwise.
template <reduce_op How, std::size_t Half, class T>
WEFT_INLINE void fold(T* x) {
  if constexpr (Half > 0) {
    for (std::size_t l = 0; l < Half; ++l) x[l] = merge<T>(How, x[l], x[l + Half]);
    fold<How, Half / 2>(x);
  }
}

template <class T>
WEFT_BASELINE_LOOPS void add_run(const T* x, T* to, std::size_t n) {
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<T>(wrapping(to[i]) + wrapping(x[i]));
}

/// Returns the sum of n elements of a tile, in an order that depends only on n, so the bits do not depend on the vector
/// width.
template <class T>
WEFT_BASELINE_LOOPS T sum_run(const T* x, std::size_t n) {
  constexpr std::size_t lanes = 16;
  T lane[lanes]{};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    WEFT_VECTORIZE
    for (std::size_t l = 0; l < lanes; ++l) lane[l] = static_cast<T>(wrapping(lane[l]) + wrapping(x[i + l]));
  }
  T total{};
  for (; i < n; ++i) total = static_cast<T>(wrapping(total) + wrapping(x[i]));
  for (std::size_t l = 0; l < lanes; ++l) total = static_cast<T>(wrapping(total) + wrapping(lane[l]));
  return total;
}

#if defined(__x86_64__)
template <class T>
WEFT_TARGET_AVX2 WEFT_LOOPS void add_run_avx2(const T* x, T* to, std::size_t n) {
  add_run(x, to, n);
}
template <class T>
WEFT_TARGET_AVX2 WEFT_LOOPS T sum_run_avx2(const T* x, std::size_t n) {
  return sum_run(x, n);
}
#endif

/// The two functions for this processor.
template <class T>
struct sums_of_runs {
  void (*add)(const T* x, T* to, std::size_t n) = add_run<T>;
  T (*sum)(const T* x, std::size_t n) = sum_run<T>;

  sums_of_runs() {
#if defined(__x86_64__)
    if constexpr (T(0.5) != T(0))
      if (detected_isa() != isa::baseline) add = add_run_avx2<T>, sum = sum_run_avx2<T>;
#endif
  }
};

WEFT_COLD_BEGIN

/// Combines all rows of a tile into one by `add`: first groups of rows that together fill vectors, then these pairwise.
template <class T, class Add>
void fold_rows(const Add& add, const T* x, T* to, std::size_t rows, std::size_t columns) {
  constexpr std::size_t room = tile_bytes / 2 / sizeof(T);
  if (rows == 1) return add(x, to, columns);
  T folded[room];
  std::size_t together = room / 2 / columns;
  together = together < 1 ? 1 : together < rows ? together : rows;
  const std::size_t run = together * columns, n = rows * columns;
  __builtin_memcpy(folded, x, run * sizeof(T));
  for (std::size_t i = run; i < n; i += run) add(x + i, folded, n - i < run ? n - i : run);
  while (together > 1) {
    const std::size_t half = (together + 1) / 2;
    add(folded + half * columns, folded, (together - half) * columns);
    together = half;
  }
  add(folded, to, columns);
}

/// Sums each of many short rows, one term after another.
template <class T>
void sum_each_row(const T* x, T* to, std::size_t rows, std::size_t columns, std::int64_t row_stride) {
  for (; rows > 0; --rows, x += columns, to += row_stride) {
    T sum = x[0];
    for (std::size_t i = 1; i < columns; ++i) sum = static_cast<T>(wrapping(sum) + wrapping(x[i]));
    *to = static_cast<T>(wrapping(*to) + wrapping(sum));
  }
}
template <std::size_t Count, class T>
WEFT_INLINE T sum_of_few(const T* x) {
  if constexpr (Count == 1)
    return x[0];
  else
    return static_cast<T>(wrapping(sum_of_few<Count - 1>(x)) + wrapping(x[Count - 1]));
}
/// Sums rows of a static length.
template <std::size_t Columns, class T>
WEFT_LOOPS void sum_short_rows(const T* x, T* to, std::size_t rows, std::int64_t row_stride) {
  if (row_stride != 1) return sum_each_row(x, to, rows, Columns, row_stride);
  WEFT_VECTORIZE
  for (std::size_t r = 0; r < rows; ++r)
    to[r] = static_cast<T>(wrapping(to[r]) + wrapping(sum_of_few<Columns>(x + r * Columns)));
}

template <class T>
void sum_tile(const T* x, T* to, std::size_t rows, std::size_t columns, std::int64_t row_stride,
              std::int64_t column_stride) {
  constexpr std::size_t few = 16;
  if (row_stride == 0 && column_stride == 0) columns *= rows, rows = 1;
  if (column_stride == 0 && columns < few && rows > 1) {
    if (columns == 2) return sum_short_rows<2>(x, to, rows, row_stride);
    if (columns == 3) return sum_short_rows<3>(x, to, rows, row_stride);
    if (columns == 4) return sum_short_rows<4>(x, to, rows, row_stride);
    if (columns == 8) return sum_short_rows<8>(x, to, rows, row_stride);
    return sum_each_row(x, to, rows, columns, row_stride);
  }
  const sums_of_runs<T> by;
  if (row_stride == 0 && column_stride != 0) return fold_rows(by.add, x, to, rows, columns);
  for (; rows > 0; --rows, x += columns, to += row_stride)
    if (column_stride == 0)
      *to = static_cast<T>(wrapping(*to) + wrapping(by.sum(x, columns)));
    else
      by.add(x, to, columns);
}

WEFT_COLD_END

template <reduce_op How, class T>
WEFT_LOOPS void merge_run(const T* x, T* to, std::size_t n) {
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) to[i] = merge(How, to[i], x[i]);
}

/// Combines rows by operations other than sums; the operation is a constant in the loops.
template <reduce_op How, class T>
WEFT_LOOPS void merge_rows(const T* x, T* to, std::size_t rows, std::size_t columns, std::int64_t row_stride,
                           std::int64_t column_stride) {
  if (row_stride == 0 && column_stride == 0) columns *= rows, rows = 1;
  if (row_stride == 0 && column_stride != 0) return fold_rows(merge_run<How, T>, x, to, rows, columns);
  for (; rows > 0; --rows, x += columns, to += row_stride)
    if (column_stride == 0) {
      T result = x[0];
      for (std::size_t i = 1; i < columns; ++i) result = merge(How, result, x[i]);
      *to = merge(How, *to, result);
    } else {
      merge_run<How>(x, to, columns);
    }
}

/// Combines a tile of rows x columns into elements that are `row_stride` and `column_stride` apart.
template <class T>
void merge_tile(reduce_op how, const void* tile, void* into, std::size_t rows, std::size_t columns,
                std::int64_t row_stride, std::int64_t column_stride) {
  const T* x = static_cast<const T*>(tile);
  T* to = static_cast<T*>(into);
  switch (how) {
    case reduce_op::sum:
      return sum_tile(x, to, rows, columns, row_stride, column_stride);
    case reduce_op::product:
      return merge_rows<reduce_op::product>(x, to, rows, columns, row_stride, column_stride);
    case reduce_op::maximum:
      return merge_rows<reduce_op::maximum>(x, to, rows, columns, row_stride, column_stride);
    case reduce_op::minimum:
      return merge_rows<reduce_op::minimum>(x, to, rows, columns, row_stride, column_stride);
    default:
      return merge_rows<reduce_op::store>(x, to, rows, columns, row_stride, column_stride);
  }
}

/// Returns the sum of n contiguous elements, by recursively adding the sums of both halves, down to tiles.
template <class T>
T sum_of(const T* x, std::size_t n) {
  constexpr std::size_t tile = tile_bytes / sizeof(T);
  if (n > tile) {
    const std::size_t half = (n / tile + 1) / 2 * tile;
    return sum_of(x, half) + sum_of(x + half, n - half);
  }
  T sum{};
  if (n > 0) merge_tile<T>(reduce_op::sum, x, &sum, 1, n, 0, 0);
  return sum;
}

template <class T>
WEFT_HOST_DEVICE T identity(reduce_op how) {
  if constexpr (T(0.5) != T(0)) {
    switch (how) {
      case reduce_op::product:
        return 1;
      case reduce_op::maximum:
        return -__builtin_inff();
      case reduce_op::minimum:
        return __builtin_inff();
      default:
        return 0;
    }
  } else {
    switch (how) {
      case reduce_op::product:
        return 1;
      case reduce_op::maximum:
        return static_cast<T>(T(-1) < T(0) ? T(1) << (8 * sizeof(T) - 1) : 0);
      case reduce_op::minimum:
        return static_cast<T>(~(T(-1) < T(0) ? T(1) << (8 * sizeof(T) - 1) : 0));
      default:
        return 0;
    }
  }
}

template <class T>
void fill_identity(reduce_op how, void* to, std::size_t n) {
  if (how == reduce_op::sum) return static_cast<void>(__builtin_memset(to, 0, n * sizeof(T)));
  const T value = identity<T>(how);
  for (std::size_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = value;
}

template <class T>
void divide(double divisor, const void* from, void* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    static_cast<T*>(to)[i] = static_cast<T>(static_cast<double>(static_cast<const T*>(from)[i]) / divisor);
}

}  // namespace detail

/// The functions that combine values of one element type. Called through a pointer, so that loops are compiled once,
/// and only for the element types that a program uses.
struct arithmetic {
  void (*merge_tile)(reduce_op, const void* tile, void* into, std::size_t rows, std::size_t columns,
                     std::int64_t row_stride, std::int64_t column_stride);
  void (*fill_identity)(reduce_op, void* to, std::size_t n);
  void (*divide)(double divisor, const void* from, void* to, std::size_t n);
};

template <class T>
inline constexpr arithmetic arithmetic_of = {detail::merge_tile<T>, detail::fill_identity<T>, detail::divide<T>};

WEFT_INSTANTIATE(const arithmetic arithmetic_of<float>);
WEFT_INSTANTIATE(const arithmetic arithmetic_of<double>);
WEFT_INSTANTIATE(const arithmetic arithmetic_of<std::int32_t>);
WEFT_INSTANTIATE(const arithmetic arithmetic_of<std::int64_t>);

}  // namespace weft::device
