// SPDX-License-Identifier: BSL-1.0
#pragma once

// OpenBLAS's header declares its own `bfloat16` in the global namespace, which would hide Weft's.
#define bfloat16 openblas_bfloat16
#include <cblas.h>
#undef bfloat16

#include <cstddef>
#include <type_traits>

#include <weft/device/cpu/matmul_reference.hpp>
#include <weft/device/cpu/openblas.hpp>

namespace weft::library {

/// Any CBLAS: OpenBLAS, BLIS, MKL, netlib. For float and double.
struct cblas {
  template <class T>
  static constexpr bool handles = std::is_same_v<T, float> || std::is_same_v<T, double>;

  template <class T>
  static void matmul(const matmul_shape& s, T alpha, const T* a, std::size_t lda, const T* b, std::size_t ldb, T beta,
                     T* c, std::size_t ldc) {
    keep_openblas_on_one_thread();
    constexpr std::size_t most = 0x7fffffff;
    const bool fits = s.m <= most && s.n <= most && s.k <= most && lda <= most && ldb <= most && ldc <= most;
    if (s.m == 0 || s.n == 0 || s.k == 0 || !fits || (!s.transpose_b && detail::matmul_streams(s.m, s.n, s.k)))
      return reference::matmul(s, alpha, a, lda, b, ldb, beta, c, ldc);
    const auto dim = [](std::size_t n) { return static_cast<int>(n); };
    const auto form = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
    const auto gemm = [&] {
      if constexpr (std::is_same_v<T, float>)
        return cblas_sgemm;
      else
        return cblas_dgemm;
    }();
    gemm(CblasRowMajor, form(s.transpose_a), form(s.transpose_b), dim(s.m), dim(s.n), dim(s.k), alpha, a, dim(lda), b,
         dim(ldb), beta, c, dim(ldc));
  }
};

}  // namespace weft::library
