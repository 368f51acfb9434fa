// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/cpu/matmul_reference.hpp>

/// The division of a matrix product into parts for threads and caches.
namespace weft::detail {

// The number of elements of an operand that fit into the second-level cache.
inline constexpr std::size_t in_second_cache = std::size_t{1} << 18;

// Returns true if a product is divided into strips of rows of C, false for strips of columns.
inline bool cuts_rows(const matmul_shape& s) {
  // If no cache holds the square, packing A twice takes less time than packing B.
  return s.m > s.n || (s.m == s.n && s.n * s.k <= in_second_cache);
}

// Returns the number of strips. It depends only on the shape, because a library's bits may change with the division but
// must not change with the number of threads. Every strip packs the other operand again. If that operand fits into the
// second-level cache, there are many strips, for many threads and so that a late strip delays little (half as many for
// columns, because packing a narrow strip of B's rows uses little of each page). Otherwise, strips are few and wide.
inline std::size_t matmul_strips(const matmul_shape& s) {
  constexpr std::size_t worth_waking = std::size_t{1} << 21;  // multiply-adds: about 45 microseconds
  const std::size_t longer = s.m > s.n ? s.m : s.n, shorter = s.m > s.n ? s.n : s.m;
  const std::size_t work = s.m * s.n * s.k;
  if (work < worth_waking || longer < 64) return 1;
  const std::size_t width = shorter * s.k > in_second_cache ? 1024 : cuts_rows(s) ? 64 : 128;
  std::size_t strips = longer / width;
  if (strips > work / (2 * worth_waking)) strips = work / (2 * worth_waking);
  return strips < 2 ? 2 : strips > 64 ? 64 : strips;
}

/// Calls `multiply(part, a, lda, b, ldb, c)` for each strip; `each(count, strip)` calls strip(0) to strip(count - 1),
/// on any threads.
template <class T, class Multiply, class Each>
void multiply_in_strips(const matmul_shape& s, const T* a, const T* b, T* c, const Multiply& multiply,
                        const Each& each) {
  const std::size_t lda = s.transpose_a ? s.m : s.k;
  const std::size_t ldb = s.transpose_b ? s.k : s.n;
  const std::size_t strips = matmul_strips(s);
  if (strips == 1) return multiply(s, a, lda, b, ldb, c);

  const bool by_rows = cuts_rows(s);
  const std::size_t extent = by_rows ? s.m : s.n;
  const std::size_t width = ((extent + strips - 1) / strips + 15) / 16 * 16;
  each(strips, [&](std::size_t index) {
    const std::size_t start = index * width;
    if (start >= extent) return;
    const std::size_t length = extent - start < width ? extent - start : width;
    matmul_shape part = s;
    if (by_rows) {
      part.m = length;
      multiply(part, a + start * (s.transpose_a ? 1 : s.k), lda, b, ldb, c + start * s.n);
    } else {
      part.n = length;
      multiply(part, a, lda, b + start * (s.transpose_b ? s.k : 1), ldb, c + start);
    }
  });
}

/// The panels of rows of a product (or of a batch of `count` products) that the work following it processes while they
/// are in the second-level cache; `outer` as in matmul_batch. One panel: the whole product at once.
template <class T>
std::size_t matmul_panels(const matmul_shape& s, std::size_t count, std::size_t outer) {
  const std::size_t fits = (std::size_t{1} << 18) / (s.n * sizeof(T) + 1), at_once = fits < 128 ? 128 : fits;
  const std::size_t rows = s.m * count;
  if (outer == 0 || rows <= 2 * at_once) return 1;
  if (count == 1 && s.transpose_a) return 1;
  if (is_storage_type<T> && count == 1) return 1;  // b would be widened again for each panel
  return rows / at_once < outer ? rows / at_once : outer;
}

}  // namespace weft::detail
