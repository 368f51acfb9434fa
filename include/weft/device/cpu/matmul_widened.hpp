// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/cpu/matmul_reference.hpp>
#include <weft/device/cpu/thread_pool.hpp>
#include <weft/device/cpu/widen.hpp>

/// Products of half and bfloat16, widened to float block by block, multiplied in float, and rounded once.
namespace weft::detail {

// The maximum block extent: three blocks in float are at most 12 MB, and a float product takes far longer than
// widening.
inline constexpr std::size_t widened_block = 1024;

/// `multiply(shape, a, b, beta, c)` computes the product of floats.
template <class T, class Multiply>
void matmul_widened(const matmul_shape& s, float alpha, const T* a, const T* b, float beta, T* c, thread_pool* pool,
                    Multiply multiply) {
  static thread_local matmul_scratch scratch;
  const std::size_t lda = s.transpose_a ? s.m : s.k, ldb = s.transpose_b ? s.k : s.n;
  const std::size_t max_m = least(s.m, widened_block), max_n = least(s.n, widened_block);
  const std::size_t max_k = least(s.k, widened_block);
  const std::size_t elements = max_m * max_k + max_k * max_n + max_m * max_n;
  float* const left = static_cast<float*>(scratch.reserve(elements * sizeof(float)));
  float *const right = left + max_m * max_k, *const sums = right + max_k * max_n;
  for (std::size_t j = 0; j < s.n; j += widened_block)
    for (std::size_t i = 0; i < s.m; i += widened_block) {
      const std::size_t m = least(s.m - i, widened_block), n = least(s.n - j, widened_block);
      for (std::size_t p = 0; p == 0 || p < s.k; p += widened_block) {
        const std::size_t k = least(s.k - p, widened_block);
        const T* const from_a = a + (s.transpose_a ? p * lda + i : i * lda + p);
        const T* const from_b = b + (s.transpose_b ? j * ldb + p : p * ldb + j);
        widen(s.transpose_a ? k : m, s.transpose_a ? m : k, from_a, lda, left, pool);
        // If all of k is one block, B does not change from one block of rows to the next.
        if (i == 0 || s.k > widened_block)
          widen(s.transpose_b ? n : k, s.transpose_b ? k : n, from_b, ldb, right, pool);
        multiply(matmul_shape{m, n, k, s.transpose_a, s.transpose_b}, left, right, p == 0 ? 0.0f : 1.0f, sums);
      }
      T* const to = c + i * s.n + j;
      if (beta == 0)
        convert_rows(m, n, sums, n, to, s.n, pool, [alpha](float sum, T) { return T(alpha * sum); });
      else
        convert_rows(m, n, sums, n, to, s.n, pool,
                     [alpha, beta](float sum, T before) { return T(alpha * sum + beta * static_cast<float>(before)); });
    }
}

}  // namespace weft::detail
