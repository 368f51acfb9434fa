// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/device/cpu/openblas.hpp>
#include <weft/device/cpu/pivots.hpp>
#include <weft/device/cpu/thread_pool.hpp>
#include <weft/error.hpp>

WEFT_COLD_BEGIN
namespace weft::library {

// LAPACK and BLAS with Fortran's calling convention, in which the lengths of strings come last. The functions have
// names of Weft's own, since a program's headers may declare them differently.
namespace fortran {
extern "C" {
void weft_sgetrf(const int* m, const int* n, float* a, const int* lda, int* pivots, int* info) __asm__("sgetrf_");
void weft_dgetrf(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info) __asm__("dgetrf_");
void weft_strsm(const char* side, const char* which, const char* transposed, const char* unit, const int* m,
                const int* n, const float* alpha, const float* a, const int* lda, float* x, const int* ldx, std::size_t,
                std::size_t, std::size_t, std::size_t) __asm__("strsm_");
void weft_dtrsm(const char* side, const char* which, const char* transposed, const char* unit, const int* m,
                const int* n, const double* alpha, const double* a, const int* lda, double* x, const int* ldx,
                std::size_t, std::size_t, std::size_t, std::size_t) __asm__("dtrsm_");
}
}  // namespace fortran

/// LAPACK from OpenBLAS, MKL or netlib. LAPACK stores matrices by columns, and Weft by rows. Weft therefore factorizes
/// the transposed matrix, A' = P L U, and solves y' A' = x', so no elements move.
struct lapack {
  static constexpr bool takes_threads = false;

  template <class T>
  static bool factorize(std::size_t n, T* a, std::int32_t* pivots, thread_pool*) {
    static_assert(std::is_same_v<int, std::int32_t>);
    keep_openblas_on_one_thread();
    if (n == 0) return true;
    const int size = extent(n);
    int info = 0;
    if constexpr (std::is_same_v<T, float>)
      fortran::weft_sgetrf(&size, &size, a, &size, pivots, &info);
    else
      fortran::weft_dgetrf(&size, &size, a, &size, pivots, &info);
    for (std::size_t i = 0; i < n; ++i) --pivots[i];
    return info == 0;
  }

  template <class T>
  static void solve(std::size_t n, std::size_t m, const T* lu, const std::int32_t* pivots, bool transposed, T* x,
                    thread_pool*) {
    if (n == 0 || m == 0) return;
    for (std::size_t i = 0; transposed && i < n; ++i) detail::exchange_pivot(i, pivots[i], m, x);
    divide(n, m, lu, transposed ? "L" : "U", transposed ? "T" : "N", x);
    divide(n, m, lu, transposed ? "U" : "L", transposed ? "T" : "N", x);
    for (std::size_t i = n; !transposed && i-- > 0;) detail::exchange_pivot(i, pivots[i], m, x);
  }

 private:
  static int extent(std::size_t n) {
    if (n > 0x7fffffff)
      throw error(error_code::unimplemented, "LAPACK", {"the number of rows must be at most 2^31 - 1; it is ", n});
    return static_cast<int>(n);
  }
  template <class T>
  static void divide(std::size_t n, std::size_t m, const T* lu, const char* which, const char* transposed, T* x) {
    const int rows = extent(m), size = extent(n);
    const char* const unit = *which == 'L' ? "U" : "N";
    const T one = 1;
    if constexpr (std::is_same_v<T, float>)
      fortran::weft_strsm("R", which, transposed, unit, &rows, &size, &one, lu, &size, x, &rows, 1, 1, 1, 1);
    else
      fortran::weft_dtrsm("R", which, transposed, unit, &rows, &size, &one, lu, &size, x, &rows, 1, 1, 1, 1);
  }
};

}  // namespace weft::library
WEFT_COLD_END
