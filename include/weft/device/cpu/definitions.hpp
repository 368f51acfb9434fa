// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/convolution_reference.hpp>
#include <weft/device/cpu/matmul_reference.hpp>

/// The definitions of products, against which their kernels are tested.
namespace weft {

/// The definition of a matrix product, against which all implementations are tested.
template <class T>
void matmul_naive(const matmul_shape& s, accumulator<T> alpha, const T* a, const T* b, accumulator<T> beta, T* c) {
  using sum_type = accumulator<T>;
  const auto left = detail::operand_a(s, a);
  const auto right = detail::operand_b(s, b);
  for (std::size_t i = 0; i < s.m; ++i)
    for (std::size_t j = 0; j < s.n; ++j) {
      sum_type sum = 0;
      for (std::size_t p = 0; p < s.k; ++p)
        sum += static_cast<sum_type>(*left.at(i, p).data) * static_cast<sum_type>(*right.at(p, j).data);
      T& to = c[i * s.n + j];
      to = beta == 0 ? alpha * sum : alpha * sum + beta * static_cast<sum_type>(to);
    }
}

/// The definition of a convolution, against which all implementations are tested.
template <class T>
void convolution_naive(const convolution_shape& s, const T* images, const T* filters, T* result) {
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t y = 0; y < s.out_height; ++y)
      for (std::int64_t x = 0; x < s.out_width; ++x)
        for (std::int64_t o = 0; o < s.filters; ++o) {
          T sum = 0;
          for (std::int64_t r = 0; r < s.window_height; ++r)
            for (std::int64_t q = 0; q < s.window_width; ++q) {
              const std::int64_t i = y * s.stride_height - s.pad_top + r * s.dilation_height;
              const std::int64_t j = x * s.stride_width - s.pad_left + q * s.dilation_width;
              if (i < 0 || i >= s.height || j < 0 || j >= s.width) continue;
              for (std::int64_t c = 0; c < s.channels; ++c)
                sum += images[((n * s.height + i) * s.width + j) * s.channels + c] *
                       filters[((r * s.window_width + q) * s.channels + c) * s.filters + o];
            }
          *result++ = sum;
        }
}

}  // namespace weft
