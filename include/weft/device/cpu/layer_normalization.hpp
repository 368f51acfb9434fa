// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>

#include <weft/device/cpu/dispatch.hpp>

/// Normalization of rows by their own moments. A row stays in the caches while it is read several times.
namespace weft::device {

namespace detail {

/// Sums two functions of an index below n, in lanes and in blocks of a few thousand terms, so that small terms do not
/// vanish.
template <class T, class F>
WEFT_INLINE void add_two(std::size_t n, const F& terms, double& first, double& second) {
  constexpr std::size_t lanes = 32, most = 4096;
  first = second = 0;
  for (std::size_t begin = 0; begin < n; begin += most) {
    const std::size_t end = n - begin < most ? n : begin + most;
    T a[lanes] = {}, b[lanes] = {};
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      WEFT_VECTORIZE
      for (std::size_t k = 0; k < lanes; ++k) terms(i + k, a[k], b[k]);
    }
    for (std::size_t k = 0; i < end; ++i, ++k) terms(i, a[k], b[k]);
    for (std::size_t k = 0; k < lanes; ++k) {
      first += static_cast<double>(a[k]);
      second += static_cast<double>(b[k]);
    }
  }
}

}  // namespace detail

/// Computes y = (x - mean) * reciprocal * scale + offset, where reciprocal is 1 / sqrt(variance + epsilon); unless
/// `Centred`, y = x * reciprocal * scale, with the mean of squares as the variance.
template <class T, bool Centred>
struct normalize_rows {
  std::size_t rows, columns;
  double epsilon;
  const T* x;
  const T* scale;
  const T* offset;
  T* y;
  T* reciprocals;
  T* means;

  WEFT_INLINE void operator()() const {
    for (std::size_t r = 0; r < rows; ++r) row(r, x + r * columns, y + r * columns);
  }

 private:
  WEFT_INLINE void row(std::size_t r, const T* from, T* to) const {
    const auto n = static_cast<double>(columns);
    double mean = 0, squares = 0, of_rest = 0;
    if constexpr (Centred) {
      detail::add_two<T>(columns, [&](std::size_t i, T& sum, T&) { sum += from[i]; }, mean, squares);
      mean /= n;
    }
    const T average = static_cast<T>(mean);
    detail::add_two<T>(
        columns,
        [&](std::size_t i, T& sum, T& rest) {
          const T d = Centred ? from[i] - average : from[i];
          sum += d * d;
          if (Centred) rest += d;
        },
        squares, of_rest);
    // The part of the mean that T cannot represent.
    const double lost = Centred ? of_rest / n : 0;
    const double reciprocal = 1 / std::sqrt(squares / n - lost * lost + epsilon);
    const T factor = static_cast<T>(reciprocal), shift = static_cast<T>(-lost * reciprocal);
    reciprocals[r] = factor;
    if constexpr (Centred) means[r] = average;
    WEFT_VECTORIZE
    for (std::size_t i = 0; i < columns; ++i)
      to[i] = Centred ? ((from[i] - average) * factor + shift) * scale[i] + offset[i] : from[i] * factor * scale[i];
  }
};

}  // namespace weft::device
