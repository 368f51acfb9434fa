#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/loop.hpp>
#include <weft/device/cpu/math.hpp>

namespace weft::device {

/// Computes for one row what softmax, its logarithm and the cross-entropies share: y = x - max(x) and z = exp(y), which
/// may be the same memory.
template <class T>
void shifted_exp(const T* x, T* y, T* z, std::size_t n) {
  T largest = n ? x[0] : T();
  for (std::size_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
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

/// The same by what this processor has; returns the sum of z.
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

/// y = softmax(x) of each row.
template <class T>
void softmax_rows(const T* x, T* y, std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const T scale = T(1) / sum_of_shifted_exp(x, y, y, columns);
    for (std::size_t c = 0; c < columns; ++c) y[c] *= scale;
  }
}

/// y = log(softmax(x)) of each row.
template <class T>
void log_softmax_rows(const T* x, T* y, T* scratch, std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const T shift = math::log(sum_of_shifted_exp(x, y, scratch, columns));
    for (std::size_t c = 0; c < columns; ++c) y[c] -= shift;
  }
}

/// losses[r] = -sum(labels * log_softmax(x)) and backprop = softmax(x) - labels, labels being rows of distributions.
template <class T>
void cross_entropy_rows(const T* x, const T* labels, T* losses, T* backprop, T* scratch, std::size_t rows,
                        std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r, x += columns, labels += columns, backprop += columns) {
    const T sum = sum_of_shifted_exp(x, scratch, backprop, columns), log_sum = math::log(sum), scale = T(1) / sum;
    for (std::size_t c = 0; c < columns; ++c) {
      scratch[c] = labels[c] * (log_sum - scratch[c]);
      backprop[c] = backprop[c] * scale - labels[c];
    }
    losses[r] = detail::sum_of(scratch, columns);
  }
}

/// The same with labels as classes. Returns the first row whose label is no class, or `rows`.
template <class T, class Label>
std::size_t sparse_cross_entropy_rows(const T* x, const Label* labels, T* losses, T* backprop, T* scratch,
                                      std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r, x += columns, backprop += columns) {
    const auto label = static_cast<std::size_t>(labels[r]);  // a negative one becomes huge
    if (label >= columns) return r;
    const T sum = sum_of_shifted_exp(x, scratch, backprop, columns), scale = T(1) / sum;
    for (std::size_t c = 0; c < columns; ++c) backprop[c] *= scale;
    losses[r] = math::log(sum) - scratch[label];
    backprop[label] -= T(1);
  }
  return rows;
}

}  // namespace weft::device
