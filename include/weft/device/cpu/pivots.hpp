// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/config.hpp>

namespace weft::detail {

template <class T>
void swap_rows(std::size_t n, T* a, T* b) {
  for (std::size_t i = 0; i < n; ++i) {
    const T keep = a[i];
    a[i] = b[i], b[i] = keep;
  }
}

/// Exchanges row i of x, with rows of m elements, with the row by which the factorization replaced it.
template <class T>
void exchange_pivot(std::size_t i, std::int32_t with, std::size_t m, T* x) {
  const auto k = static_cast<std::size_t>(with);
  if (k != i) swap_rows(m, x + i * m, x + k * m);
}

}  // namespace weft::detail
