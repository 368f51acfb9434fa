// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/layer_normalization.hpp>

namespace weft::device {

/// Computes the gradient of x, and the gradients of scale and offset summed over the rows. `few` has room for two rows.
template <class T, bool Centred>
struct gradients_of_rows {
  std::size_t rows, columns;
  const T* x;
  const T* scale;
  const T* upstream;
  const T* reciprocals;
  const T* means;
  T* dx;
  T* few;
  double* sums;  ///< for scale, then for offset

  WEFT_INLINE void operator()() const {
    constexpr std::size_t at_once = 32;  // rows that are summed in T
    T *const of_scale = few, *const of_offset = few + columns;
    for (std::size_t i = 0; i < 2 * columns; ++i) sums[i] = 0;
    for (std::size_t begin = 0; begin < rows; begin += at_once) {
      for (std::size_t i = 0; i < 2 * columns; ++i) few[i] = 0;
      for (std::size_t r = begin; r < rows && r < begin + at_once; ++r) row(r, of_scale, of_offset);
      for (std::size_t i = 0; i < 2 * columns; ++i) sums[i] += static_cast<double>(few[i]);
    }
  }

 private:
  WEFT_INLINE void row(std::size_t r, T* of_scale, T* of_offset) const {
    const T* const from = x + r * columns;
    const T* const up = upstream + r * columns;
    T* const to = dx + r * columns;
    const T mean = Centred ? means[r] : T(0), reciprocal = reciprocals[r];
    double sum = 0, product = 0;
    detail::add_two<T>(
        columns,
        [&](std::size_t i, T& a, T& b) {
          const T g = up[i] * scale[i];
          if (Centred) a += g;
          b += g * ((from[i] - mean) * reciprocal);
        },
        sum, product);
    const T average = static_cast<T>(sum / static_cast<double>(columns));
    const T slope = static_cast<T>(product / static_cast<double>(columns));
    WEFT_VECTORIZE
    for (std::size_t i = 0; i < columns; ++i) {
      const T normal = (from[i] - mean) * reciprocal, g = up[i];
      of_scale[i] += g * normal;
      if (Centred) of_offset[i] += g;
      to[i] = (g * scale[i] - average - normal * slope) * reciprocal;
    }
  }
};

}  // namespace weft::device
