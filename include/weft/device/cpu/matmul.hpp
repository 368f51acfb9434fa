// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <type_traits>

#include <weft/device/cpu/matmul_reference.hpp>
#include <weft/device/cpu/matmul_strips.hpp>
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

// The threads of the pool share the strips.
template <class Policy, class T>
void matmul_in_strips(const matmul_shape& s, T alpha, const T* a, const T* b, T beta, T* c, thread_pool* pool) {
  using chosen = matmul_library<Policy, T>;
  multiply_in_strips(
      s, a, b, c,
      [&](const matmul_shape& part, const T* x, std::size_t lda, const T* y, std::size_t ldb, T* z) {
        chosen::matmul(part, alpha, x, lda, y, ldb, beta, z, s.n);
      },
      [&](std::size_t strips, const auto& strip) {
        if (pool != nullptr) return pool->parallel_for(strips, strip);
        for (std::size_t index = 0; index < strips; ++index) strip(index);
      });
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
