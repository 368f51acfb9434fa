// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>
#include <weft/device/cpu/tile.hpp>

namespace weft::device {

/// The row length from which a call of vectorised code pays off.
inline constexpr std::size_t long_row = 64;

/// Computes the common part of softmax, its logarithm and the cross-entropies for one row: y = x - max(x) and z =
/// exp(y), which may be the same memory.
template <class T>
WEFT_BASELINE_LOOPS void shifted_exp(const T* x, T* y, T* z, std::size_t n) {
  T largest = n ? x[0] : T();
  std::size_t first = 0;
  if (n >= long_row) {
    // The maxima of every sixteenth element, which are independent of each other and fill vectors.
    constexpr std::size_t lanes = 16;
    T most[lanes];
    for (T& m : most) m = largest;
    for (; first + lanes <= n; first += lanes) {
      WEFT_VECTORIZE
      for (std::size_t k = 0; k < lanes; ++k) {
        const T value = x[first + k];
        most[k] = value > most[k] ? value : most[k];
      }
    }
    for (const T m : most) largest = m > largest ? m : largest;
  }
  for (; first < n; ++first) largest = x[first] > largest ? x[first] : largest;
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = x[i] - largest;
    z[i] = math::exp(x[i] - largest);
  }
}

#if defined(__x86_64__)
template <class T>
WEFT_TARGET_AVX2 WEFT_LOOPS void shifted_exp_avx2(const T* x, T* y, T* z, std::size_t n) {
  shifted_exp(x, y, z, n);
}
#endif

/// Computes shifted_exp for the instruction set of this processor; returns the sum of z.
template <class T>
T sum_of_shifted_exp(const T* x, T* y, T* z, std::size_t n) {
#if defined(__x86_64__)
  if (detected_isa() != isa::baseline)
    shifted_exp_avx2(x, y, z, n);
  else
#endif
    shifted_exp(x, y, z, n);
  return detail::sum_of(z, n);
}

/// y = y * factor + term.
template <class T>
void scale_row(T* y, T factor, T term, std::size_t n) {
  if (n < long_row) {
    for (std::size_t c = 0; c < n; ++c) y[c] = y[c] * factor + term;
    return;
  }
  multiversioned_up_to_avx2([=] {
    WEFT_VECTORIZE
    for (std::size_t c = 0; c < n; ++c) y[c] = y[c] * factor + term;
  });
}

/// Computes y = softmax(x) for each row.
template <class T>
void softmax_rows(const T* x, T* y, std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r, x += columns, y += columns) {
    scale_row(y, T(1) / sum_of_shifted_exp(x, y, y, columns), T(0), columns);
  }
}

/// Computes y = log(softmax(x)) for each row.
template <class T>
void log_softmax_rows(const T* x, T* y, T* scratch, std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r, x += columns, y += columns) {
    scale_row(y, T(1), -math::log(sum_of_shifted_exp(x, y, scratch, columns)), columns);
  }
}

}  // namespace weft::device
