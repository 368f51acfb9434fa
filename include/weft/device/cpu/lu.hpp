// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/matmul.hpp>
#include <weft/device/cpu/matrices.hpp>
#include <weft/device/cpu/pivots.hpp>
#if defined(WEFT_HAS_LAPACK)
  #include <weft/device/cpu/lu_lapack.hpp>
#endif

WEFT_COLD_BEGIN
namespace weft {
namespace detail {

/// x[i] -= f * y[i]
template <class T>
WEFT_INLINE void subtract_multiple(std::size_t n, T f, const T* y, T* x) {
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) x[i] -= f * y[i];
}

/// C -= op(A) * B for parts of larger matrices, in strips if there are many rows.
template <class T>
void subtract_product(const matmul_shape& s, const T* a, std::size_t lda, const T* b, std::size_t ldb, T* c,
                      std::size_t ldc, thread_pool* pool) {
  using multiply = matmul_library<library::best, T>;
  constexpr std::size_t rows = 128, worth_waking = std::size_t{1} << 21;
  if (s.m * s.n * s.k < worth_waking) return multiply::matmul(s, T(-1), a, lda, b, ldb, T(1), c, ldc);
  const auto strip = [&](std::size_t i) {
    matmul_shape part = s;
    const std::size_t begin = i * rows;
    part.m = least(s.m - begin, rows);
    multiply::matmul(part, T(-1), a + begin * (s.transpose_a ? 1 : lda), lda, b, ldb, T(1), c + begin * ldc, ldc);
  };
  const std::size_t strips = (s.m + rows - 1) / rows;
  if (pool) return pool->parallel_for(strips, strip);
  for (std::size_t i = 0; i < strips; ++i) strip(i);
}

}  // namespace detail

namespace library {

/// LU factorization with partial pivoting by Weft's own code, in blocks, with matrix products by the libraries.
struct reference_lu {
  static constexpr bool takes_threads = true;
  static constexpr std::size_t width = 64;  // of a block

  /// Factorizes a matrix of n rows in place into L, with a unit diagonal, and U. Rows i and pivots[i] were swapped, in
  /// the order of i. Returns false if a pivot is 0.
  template <class T>
  static bool factorize(std::size_t n, T* a, std::int32_t* pivots, thread_pool* pool) {
    bool regular = true;
    for (std::size_t begin = 0; begin < n; begin += width) {
      const std::size_t end = begin + detail::least(width, n - begin), behind = n - end;
      multiversioned_up_to_avx2([&] { regular = factorize_columns(n, begin, end, a, pivots) && regular; });
      if (behind == 0) break;
      T* const right = a + begin * n + end;
      solve_triangle<T>({end - begin, n, false, false, true}, a + begin * n + begin, behind, right, n, nullptr);
      detail::subtract_product<T>({behind, behind, end - begin}, a + end * n + begin, n, right, n, a + end * n + end, n,
                                  pool);
    }
    return regular;
  }

  /// Solves A y = x or A' y = x in place, where x has n rows of m.
  template <class T>
  static void solve(std::size_t n, std::size_t m, const T* lu, const std::int32_t* pivots, bool transposed, T* x,
                    thread_pool* pool) {
    for (std::size_t i = 0; !transposed && i < n; ++i) detail::exchange_pivot(i, pivots[i], m, x);
    solve_triangle<T>({n, n, transposed, transposed, !transposed}, lu, m, x, m, pool);
    solve_triangle<T>({n, n, !transposed, transposed, transposed}, lu, m, x, m, pool);
    for (std::size_t i = n; transposed && i-- > 0;) detail::exchange_pivot(i, pivots[i], m, x);
  }

  /// Solves op(A) y = x in place, where x has m columns.
  template <class T>
  static void solve_triangle(const detail::triangle& t, const T* a, std::size_t m, T* x, std::size_t ldx,
                             thread_pool* pool) {
    const bool forward = t.upper == t.transposed;
    for (std::size_t done = 0; done < t.n; done += width) {
      const std::size_t size = detail::least(width, t.n - done), left = t.n - done - size;
      const std::size_t begin = forward ? done : left, end = begin + size;
      multiversioned_up_to_avx2([&] { solve_block(t, begin, end, a, m, x, ldx); });
      if (left == 0) break;
      const std::size_t to = forward ? end : 0;
      detail::subtract_product<T>({left, m, size, t.transposed},
                                  a + (t.transposed ? begin * t.lda + to : to * t.lda + begin), t.lda, x + begin * ldx,
                                  ldx, x + to * ldx, ldx, pool);
    }
  }

 private:
  template <class T>
  static WEFT_INLINE bool factorize_columns(std::size_t n, std::size_t begin, std::size_t end, T* a,
                                            std::int32_t* pivots) {
    bool regular = true;
    for (std::size_t j = begin; j < end; ++j) {
      std::size_t p = j;
      T largest = std::abs(a[j * n + j]);
      for (std::size_t i = j + 1; i < n && largest == largest; ++i) {
        const T here = std::abs(a[i * n + j]);
        if (here > largest || here != here) largest = here, p = i;
      }
      pivots[j] = static_cast<std::int32_t>(p);
      if (p != j) detail::swap_rows(n, a + j * n, a + p * n);
      if (largest == 0) {
        regular = false;
        continue;
      }
      const T* const pivot = a + j * n;
      for (std::size_t i = j + 1; i < n; ++i) {
        T* const row = a + i * n;
        row[j] /= pivot[j];
        detail::subtract_multiple(end - j - 1, row[j], pivot + j + 1, row + j + 1);
      }
    }
    return regular;
  }

  template <class T>
  static WEFT_INLINE void solve_block(const detail::triangle& t, std::size_t begin, std::size_t end, const T* a,
                                      std::size_t m, T* x, std::size_t ldx) {
    const bool forward = t.upper == t.transposed;
    for (std::size_t r = 0; r < end - begin; ++r) {
      const std::size_t i = forward ? begin + r : end - 1 - r;
      for (std::size_t q = 0; q < r; ++q) {
        const std::size_t k = forward ? begin + q : end - 1 - q;
        detail::subtract_multiple(m, t.transposed ? a[k * t.lda + i] : a[i * t.lda + k], x + k * ldx, x + i * ldx);
      }
      const T diagonal = a[i * t.lda + i];
      for (std::size_t c = 0; !t.unit && c < m; ++c) x[i * ldx + c] /= diagonal;
    }
  }
};

#if defined(WEFT_HAS_LAPACK)
using best_lu = lapack;
#else
using best_lu = reference_lu;
#endif

}  // namespace library
}  // namespace weft
WEFT_COLD_END
