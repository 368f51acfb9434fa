// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <type_traits>

#include <weft/device/cpu/matmul_reference.hpp>
#include <weft/device/cpu/matmul_widened.hpp>
#include <weft/device/cpu/thread_pool.hpp>
#if defined(WEFT_HAS_DNNL)
  #include <weft/device/cpu/matmul_dnnl.hpp>
#endif
#if defined(WEFT_HAS_CBLAS)
  #include <weft/device/cpu/matmul_cblas.hpp>
#endif

namespace weft {

namespace library {

#if defined(WEFT_HAS_DNNL)
using best = dnnl;
#elif defined(WEFT_HAS_CBLAS)
using best = cblas;
#else
using best = reference;
#endif

}  // namespace library

namespace detail {

// The library that multiplies T under a policy: the policy itself, or the fallback if the policy does not support T.
#if defined(WEFT_HAS_CBLAS)
using matmul_fallback = library::cblas;
#else
using matmul_fallback = library::reference;
#endif
template <class Policy, class T>
using matmul_library =
    std::conditional_t<Policy::template handles<T>, Policy,
                       std::conditional_t<matmul_fallback::template handles<T>, matmul_fallback, library::reference>>;

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

// The threads of the pool share the strips.
template <class Policy, class T>
void matmul_in_strips(const matmul_shape& s, T alpha, const T* a, const T* b, T beta, T* c, thread_pool* pool) {
  using chosen = matmul_library<Policy, T>;
  const std::size_t lda = s.transpose_a ? s.m : s.k;
  const std::size_t ldb = s.transpose_b ? s.k : s.n;
  const std::size_t strips = matmul_strips(s);
  if (strips == 1) return chosen::matmul(s, alpha, a, lda, b, ldb, beta, c, s.n);

  const bool by_rows = cuts_rows(s);
  const std::size_t extent = by_rows ? s.m : s.n;
  const std::size_t width = ((extent + strips - 1) / strips + 15) / 16 * 16;
  const auto strip = [&](std::size_t index) {
    const std::size_t start = index * width;
    if (start >= extent) return;
    const std::size_t length = extent - start < width ? extent - start : width;
    matmul_shape part = s;
    if (by_rows) {
      part.m = length;
      chosen::matmul(part, alpha, a + start * (s.transpose_a ? 1 : s.k), lda, b, ldb, beta, c + start * s.n, s.n);
    } else {
      part.n = length;
      chosen::matmul(part, alpha, a, lda, b + start * (s.transpose_b ? s.k : 1), ldb, beta, c + start, s.n);
    }
  };
  if (pool != nullptr) return pool->parallel_for(strips, strip);
  for (std::size_t index = 0; index < strips; ++index) strip(index);
}

}  // namespace detail

/// C = alpha * op(A) * op(B) + beta * C; see matmul_shape. The threads of the pool, if given, share large products; the
/// bits are the same without it.
template <class Policy = library::best, class T>
void matmul(const matmul_shape& s, accumulator<T> alpha, const T* a, const T* b, accumulator<T> beta, T* c,
            thread_pool* pool = nullptr) {
  if constexpr (is_storage_type<T>) {
    const auto multiply = [pool](const matmul_shape& part, const float* x, const float* y, float keep, float* z) {
      detail::matmul_in_strips<Policy>(part, 1.0f, x, y, keep, z, pool);
    };
    detail::matmul_widened(s, alpha, a, b, beta, c, pool, multiply);
  } else {
    detail::matmul_in_strips<Policy>(s, alpha, a, b, beta, c, pool);
  }
}

}  // namespace weft
