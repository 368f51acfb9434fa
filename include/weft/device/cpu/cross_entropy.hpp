// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/softmax.hpp>

namespace weft::device {

/// Computes losses[r] = -sum(labels * log_softmax(x)) and backprop = softmax(x) - labels, where the rows of labels are
/// distributions.
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

/// Computes the losses and gradients for labels that are classes. Returns the first row whose label is out of range, or
/// `rows`.
template <class T, class Label>
std::size_t sparse_cross_entropy_rows(const T* x, const Label* labels, T* losses, T* backprop, T* scratch,
                                      std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r, x += columns, backprop += columns) {
    const auto label = static_cast<std::size_t>(labels[r]);  // a negative one becomes huge
    if (label >= columns) return r;
    const T sum = sum_of_shifted_exp(x, scratch, backprop, columns), scale = T(1) / sum;
    scale_row(backprop, scale, T(0), columns);
    losses[r] = math::log(sum) - scratch[label];
    backprop[label] -= T(1);
  }
  return rows;
}

}  // namespace weft::device
