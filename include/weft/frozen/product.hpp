// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/matmul_strips.hpp>

/// Matrix products of frozen models.
namespace weft::frozen {

/// Computes a product on one thread. `scratch`: memory for matmul_packed_elements<T>(n, k), or null if no part of the
/// product is packed.
template <class T>
void product(const matmul_shape& s, const T* a, const T* b, T* c, T* scratch) {
  weft::detail::multiply_in_strips(
      s, a, b, c,
      [&](const matmul_shape& part, const T* x, std::size_t lda, const T* y, std::size_t ldb, T* z) {
        library::reference::matmul(part, T(1), x, lda, y, ldb, T(0), z, s.n, scratch);
      },
      [](std::size_t strips, const auto& strip) {
        for (std::size_t index = 0; index < strips; ++index) strip(index);
      });
}

/// Computes a product of at most two rows, which reads b once. A session's kernel stops at AVX2, with the same bits.
template <class T>
void row_product(const matmul_shape& s, const T* a, const T* b, T* c) {
  const auto left = weft::detail::operand_a(s, a);
  multiversioned(weft::detail::matmul_rows_of_c<T>{s.m, s.n, s.k, T(1), left, b, s.n, c, s.n, false});
}

/// Computes `all.count` products, in the panels of a session's kernel if an expression follows (`followed`).
template <class T>
void products(const matmul_batch& all, bool followed, const T* a, const T* b, T* c, T* scratch) {
  const auto [m, n, k, ta, tb] = all.each;
  for (std::size_t i = 0; all.count != 1 && i < all.count; ++i)
    product(all.each, a + i * m * k, b + i * k * n, c + i * m * n, scratch);
  if (all.count != 1) return;
  const std::size_t panels = followed ? weft::detail::matmul_panels<T>(all.each, 1, all.outer) : 1;
  if (panels == 1) return product(all.each, a, b, c, scratch);
  const std::size_t rows = m / all.outer;
  for (std::size_t i = 0; i < panels; ++i) {
    const std::size_t begin = all.outer * i / panels * rows, end = all.outer * (i + 1) / panels * rows;
    product({end - begin, n, k, ta, tb}, a + begin * k, b, c + begin * n, scratch);
  }
}

}  // namespace weft::frozen
