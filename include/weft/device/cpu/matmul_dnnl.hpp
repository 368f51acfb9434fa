// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <dnnl.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include <weft/device/cpu/matmul_reference.hpp>
#if defined(__cpp_exceptions)  // frozen models do without
  #include <weft/error.hpp>
#endif

// oneDNN is usually built with OpenMP, whose threads would compete with Weft's. These two functions exist at run time
// exactly if OpenMP's library is loaded; they need no header and no link flag.
extern "C" {
int omp_get_max_threads() __attribute__((weak));
void omp_set_num_threads(int) __attribute__((weak));
}

namespace weft {

namespace detail {

// During its lifetime, OpenMP regions of this thread run on this thread alone.
class one_openmp_thread {
 public:
  one_openmp_thread() : threads_(omp_set_num_threads && omp_get_max_threads ? omp_get_max_threads() : 1) {
    if (threads_ != 1) omp_set_num_threads(1);
  }
  ~one_openmp_thread() {
    if (threads_ != 1) omp_set_num_threads(threads_);
  }
  one_openmp_thread(const one_openmp_thread&) = delete;
  one_openmp_thread& operator=(const one_openmp_thread&) = delete;

 private:
  int threads_;
};

}  // namespace detail

namespace library {

/// oneDNN, 2.6 or 3.x. Multiplies float only.
///
/// Weft's own kernels compute small products, for which they are at least as fast as dnnl_sgemm (measured against 2.6):
/// one or two rows, outer products, and a small matrix times a vector; on AVX2, also a B that fits into the first-level
/// cache, unless C is narrow and k is not short; on AVX-512, whose wider vectors dnnl_sgemm uses, only products that
/// take less time than a call. Never if B is transposed and has several columns.
struct dnnl {
  template <class T>
  static constexpr bool handles = std::is_same_v<T, float>;

  static bool keeps_small(const matmul_shape& s) {
    if (s.m == 0 || s.n == 0 || s.k == 0) return true;
    if (s.n == 1) return s.m <= 2 || s.m * s.k <= 16384;
    if (s.transpose_b) return false;
    if (detail::matmul_streams(s.m, s.n, s.k)) return true;
    if (detected_isa() == isa::avx512) return s.m * s.n * s.k <= (s.n >= 32 ? 32768 : 1024);
    return s.k * s.n <= 8192 && (s.n >= 32 || s.k <= 16);
  }

  // Returns the part of k that one call sums. Rows of B that are a page or more apart share few sets of the
  // second-level cache. If there are more rows than these sets hold, packing fetches each line twice, which is
  // noticeable if A has few rows.
  static std::size_t depth_at_once(const matmul_shape& s, std::size_t ldb) {
    constexpr std::size_t most = 400;
    if (s.transpose_b || ldb < 1024 || s.m > 512) return s.k;
    const std::size_t calls = (s.k + most - 1) / most;
    return (s.k + calls - 1) / calls;
  }

  static void small(const matmul_shape& s, float alpha, const float* a, std::size_t lda, const float* b,
                    std::size_t ldb, float beta, float* c, std::size_t ldc) {
    if (s.n == 1) return reference::matmul(s, alpha, a, lda, b, ldb, beta, c, ldc);
    const detail::strided<float> left =
        s.transpose_a ? detail::strided<float>{a, 1, lda} : detail::strided<float>{a, lda, 1};
    const bool add = detail::adds_to(c, s.m, s.n, ldc, beta);
    if (s.n < detail::matmul_width<float>(isa::avx2) || detail::matmul_streams(s.m, s.n, s.k))
      detail::matmul_stream(detail::matmul_rows_of_c<float>{s.m, s.n, s.k, alpha, left, b, ldb, c, ldc, add});
    else
      multiversioned_up_to_avx2(detail::matmul_block<float>{s.m, s.n, s.k, alpha, left, b, ldb, false, c, ldc, add});
  }

  static void matmul(const matmul_shape& s, float alpha, const float* a, std::size_t lda, const float* b,
                     std::size_t ldb, float beta, float* c, std::size_t ldc) {
    if (keeps_small(s)) return small(s, alpha, a, lda, b, ldb, beta, c, ldc);
    const auto dim = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
    const detail::one_openmp_thread guard;
    const std::size_t depth = depth_at_once(s, ldb);
    dnnl_status_t status = dnnl_success;
    for (std::size_t k = 0; k < s.k && status == dnnl_success; k += depth)
      status = dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', dim(s.m), dim(s.n),
                          dim(s.k - k < depth ? s.k - k : depth), alpha, a + k * (s.transpose_a ? lda : 1), dim(lda),
                          b + k * (s.transpose_b ? 1 : ldb), dim(ldb), k == 0 ? beta : 1.0f, c, dim(ldc));
    if (status != dnnl_success) {
#if defined(__cpp_exceptions)
      throw error(error_code::internal, "matmul",
                  {"oneDNN rejected a matrix product with status ", static_cast<int>(status)});
#else
      __builtin_trap();
#endif
    }
  }
};

}  // namespace library
}  // namespace weft
