// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/config.hpp>
#include <weft/error.hpp>

WEFT_COLD_BEGIN
namespace weft::library {

// LAPACK and BLAS with Fortran's calling convention, in which the lengths of strings come last. The functions are
// overloads with names of Weft's own, since a program's headers may declare them differently.
namespace fortran {
#define WEFT_LAPACK(type, p)                                                                                           \
  void trsm(const char* side, const char* which, const char* transposed, const char* unit, const int* m, const int* n, \
            const type* alpha, const type* a, const int* lda, type* x, const int* ldx, std::size_t, std::size_t,       \
            std::size_t, std::size_t) __asm__(p "trsm_");                                                              \
  void getrf(const int* m, const int* n, type* a, const int* lda, int* pivots, int* info) __asm__(p "getrf_");         \
  void potrf(const char* which, const int* n, type* a, const int* lda, int* info, std::size_t) __asm__(p "potrf_");    \
  void geqrf(const int* m, const int* n, type* a, const int* lda, type* tau, type* work, const int* count,             \
             int* info) __asm__(p "geqrf_");                                                                           \
  void orgqr(const int* m, const int* n, const int* k, type* a, const int* lda, const type* tau, type* work,           \
             const int* count, int* info) __asm__(p "orgqr_");                                                         \
  void gesdd(const char* job, const int* m, const int* n, type* a, const int* lda, type* s, type* u, const int* ldu,   \
             type* vt, const int* ldvt, type* work, const int* count, int* integers, int* info,                        \
             std::size_t) __asm__(p "gesdd_");                                                                         \
  void syevd(const char* job, const char* which, const int* n, type* a, const int* lda, type* values, type* work,      \
             const int* count, int* integers, const int* integer_count, int* info, std::size_t,                        \
             std::size_t) __asm__(p "syevd_");                                                                         \
  void geev(const char* left, const char* right, const int* n, type* a, const int* lda, type* real,                    \
            type* imaginary_parts, type* vl, const int* ldvl, type* vr, const int* ldvr, type* work, const int* count, \
            int* info, std::size_t, std::size_t) __asm__(p "geev_");
WEFT_LAPACK(float, "s")
WEFT_LAPACK(double, "d")
#undef WEFT_LAPACK
}  // namespace fortran

/// An extent or a number of elements as LAPACK takes it.
inline int lapack_extent(std::size_t n) {
  if (n > 0x7fffffff)
    throw error(error_code::unimplemented, "LAPACK", {"extents and workspaces must be at most 2^31 - 1, not ", n});
  return static_cast<int>(n);
}

}  // namespace weft::library
WEFT_COLD_END
