// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/compiler.hpp>

namespace weft::device {

/// The sum that computes a resampled row: `count` rows from row `first` on, with weights from index `weights` on.
struct resample_band {
  std::size_t first = 0, count = 0, weights = 0;
};

/// Writes a resampled row of `inner` elements.
template <class T>
WEFT_INLINE void resample_row(const T* x, resample_band b, const T* weights, std::size_t inner, T* y) {
  constexpr std::size_t block = 512;  // stays in the first-level cache while the rows are added
  const T* const w = weights + b.weights;
  x += b.first * inner;
  for (std::size_t begin = 0; begin < inner; begin += block) {
    const std::size_t end = inner - begin < block ? inner : begin + block;
    if (b.count == 0)
      for (std::size_t c = begin; c < end; ++c) y[c] = 0;
    for (std::size_t k = 0; k < b.count; k += 2) {
      const bool two = k + 1 < b.count;
      const T *const first = x + k * inner, *const second = two ? first + inner : first;
      const T u = w[k], v = two ? w[k + 1] : T(0);
      if (k == 0 && two) {
        WEFT_VECTORIZE
        for (std::size_t c = begin; c < end; ++c) y[c] = u * first[c] + v * second[c];
      } else if (k == 0) {
        WEFT_VECTORIZE
        for (std::size_t c = begin; c < end; ++c) y[c] = u * first[c];
      } else if (two) {
        WEFT_VECTORIZE
        for (std::size_t c = begin; c < end; ++c) y[c] += u * first[c] + v * second[c];
      } else {
        WEFT_VECTORIZE
        for (std::size_t c = begin; c < end; ++c) y[c] += u * first[c];
      }
    }
  }
}

}  // namespace weft::device
