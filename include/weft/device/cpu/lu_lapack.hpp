// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/device/cpu/lapack.hpp>
#include <weft/device/cpu/matrices.hpp>
#include <weft/device/cpu/openblas.hpp>
#include <weft/device/cpu/pivots.hpp>
#include <weft/device/cpu/thread_pool.hpp>

WEFT_COLD_BEGIN
namespace weft::library {

/// LAPACK from OpenBLAS, MKL or netlib. LAPACK stores matrices by columns, and Weft by rows. Weft therefore factorizes
/// the transposed matrix, A' = P L U, and solves y' A' = x', so no elements move.
struct lapack {
  static constexpr bool takes_threads = false;

  template <class T>
  static bool factorize(std::size_t n, T* a, std::int32_t* pivots, thread_pool*) {
    static_assert(std::is_same_v<int, std::int32_t>);
    keep_openblas_on_one_thread();
    if (n == 0) return true;
    const int size = lapack_extent(n);
    int info = 0;
    fortran::getrf(&size, &size, a, &size, pivots, &info);
    for (std::size_t i = 0; i < n; ++i) --pivots[i];
    return info == 0;
  }

  template <class T>
  static void solve(std::size_t n, std::size_t m, const T* lu, const std::int32_t* pivots, bool transposed, T* x,
                    thread_pool* pool) {
    for (std::size_t i = 0; transposed && i < n; ++i) detail::exchange_pivot(i, pivots[i], m, x);
    solve_triangle<T>({n, n, transposed, transposed, transposed}, lu, m, x, m, pool);
    solve_triangle<T>({n, n, !transposed, transposed, !transposed}, lu, m, x, m, pool);
    for (std::size_t i = n; !transposed && i-- > 0;) detail::exchange_pivot(i, pivots[i], m, x);
  }

  /// Solves op(A) y = x in place, where x has m columns.
  template <class T>
  static void solve_triangle(const detail::triangle& t, const T* a, std::size_t m, T* x, std::size_t ldx,
                             thread_pool*) {
    keep_openblas_on_one_thread();
    if (t.n == 0 || m == 0) return;
    const int rows = lapack_extent(m), size = lapack_extent(t.n), lda = lapack_extent(t.lda), to = lapack_extent(ldx);
    const T one = 1;
    fortran::trsm("R", t.upper ? "L" : "U", t.transposed ? "T" : "N", t.unit ? "U" : "N", &rows, &size, &one, a, &lda,
                  x, &to, 1, 1, 1, 1);
  }
};

}  // namespace weft::library
WEFT_COLD_END
