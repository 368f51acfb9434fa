// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/convolution.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/tile.hpp>

namespace weft::device {

namespace detail {

/// Some rows of windows of one image, or all of them for the gradients of images. The innermost loops run over
/// channels, which are adjacent.
template <class T, pool_kind Kind>
struct pool_image {
  const convolution_shape& s;
  const T* a;  // images, or the upstream gradient of an average
  const T* b;  // the upstream gradient of a maximum, or the values to choose from
  T* out;
  std::int64_t begin, end;  // rows

  WEFT_INLINE void operator()() const {
    constexpr bool gradient = Kind == pool_kind::max_gradient || Kind == pool_kind::average_gradient;
    if (covers_in_fours()) {
      for (std::int64_t y = begin; y < end; ++y)
        for (std::int64_t x = 0; x < s.out_width; ++x) window_of_four(y, x);
      return;
    }
    if constexpr (gradient)
      for (std::size_t i = 0; i < s.image_elements(); ++i) out[i] = 0;
    for (std::int64_t y = begin; y < end; ++y)
      for (std::int64_t x = 0; x < s.out_width; ++x) window(y, x);
  }

 private:
  // True for the most common pool: adjacent windows of 2x2 that cover the image.
  bool covers_in_fours() const {
    return s.window_height == 2 && s.window_width == 2 && s.stride_height == 2 && s.stride_width == 2 &&
           s.pad_top == 0 && s.pad_left == 0 && s.height == 2 * s.out_height && s.width == 2 * s.out_width;
  }

  WEFT_INLINE void window_of_four(std::int64_t y, std::int64_t x) const {
    const std::int64_t n = s.channels, row = s.width * n, large = 2 * (y * row + x * n),
                       small = (y * s.out_width + x) * n;
    if constexpr (Kind == pool_kind::average_gradient) {
      const T* const up = a + small;
      T* const to = out + large;
      WEFT_VECTORIZE
      for (std::int64_t k = 0; k < n; ++k) to[k] = to[n + k] = to[row + k] = to[row + n + k] = up[k] / T(4);
    } else {
      const T *const a0 = a + large, *const a1 = a0 + n, *const a2 = a0 + row, *const a3 = a2 + n;
      if constexpr (Kind == pool_kind::average) {
        WEFT_VECTORIZE
        for (std::int64_t k = 0; k < n; ++k) out[small + k] = (a0[k] + a1[k] + a2[k] + a3[k]) / T(4);
      } else {
        // Reads everything before choosing: a load that depends on a choice is not vectorised.
        WEFT_VECTORIZE
        for (std::int64_t k = 0; k < n; ++k) {
          const T v0 = a0[k], v1 = a1[k], v2 = a2[k], v3 = a3[k];
          const T upper = later_if(v1, v0, v1, v0), lower = later_if(v3, v2, v3, v2);
          if constexpr (Kind == pool_kind::max) {
            out[small + k] = later_if(lower, upper, lower, upper);
          } else if constexpr (Kind == pool_kind::max_choice) {
            const T *const b0 = b + large, *const b2 = b0 + row;
            const T w0 = b0[k], w1 = b0[n + k], w2 = b2[k], w3 = b2[n + k];
            out[small + k] = later_if(lower, upper, later_if(v3, v2, w3, w2), later_if(v1, v0, w1, w0));
          } else if constexpr (Kind == pool_kind::max_gradient) {
            const T up = b[small + k];
            const T to_upper = later_if(lower, upper, T(0), up), to_lower = later_if(lower, upper, up, T(0));
            T* const to = out + large;
            to[k] = later_if(v1, v0, T(0), to_upper);
            to[n + k] = later_if(v1, v0, to_upper, T(0));
            to[row + k] = later_if(v3, v2, T(0), to_lower);
            to[row + n + k] = later_if(v3, v2, to_lower, T(0));
          }
        }
      }
    }
  }

  // Keeps the first of equal elements. NaN wins, so that it propagates; of several NaNs, the last one wins.
  static WEFT_INLINE bool beats(T later, T earlier) { return (later > earlier) | is_nan(later); }
  static WEFT_INLINE T later_if(T later, T earlier, T yes, T no) {
    const T chosen = later > earlier ? yes : no;
    return is_nan(later) ? yes : chosen;
  }

  struct range {
    std::int64_t begin, end;
  };
  // The pixels along one axis that window `i` covers.
  static WEFT_INLINE range covered(std::int64_t i, std::int64_t extent, std::int64_t windows, std::int64_t window,
                                   std::int64_t stride, std::int64_t pad) {
    if (window == 0) return {i * extent / windows, ((i + 1) * extent + windows - 1) / windows};
    const std::int64_t first = i * stride - pad, last = first + window;
    return {first < 0 ? 0 : first, last < extent ? last : extent};
  }

  WEFT_INLINE void window(std::int64_t y, std::int64_t x) const {
    const auto [row0, row1] = covered(y, s.height, s.out_height, s.window_height, s.stride_height, s.pad_top);
    const auto [column0, column1] = covered(x, s.width, s.out_width, s.window_width, s.stride_width, s.pad_left);
    const std::int64_t channels = s.channels, result = (y * s.out_width + x) * channels;
    // Processes some channels at a time, so that intermediate results stay in registers.
    constexpr std::int64_t block = 32;
    for (std::int64_t c = 0; c < channels; c += block) {
      if (channels - c >= block)
        channels_of<block>(row0, row1, column0, column1, c, result + c, block);
      else
        channels_of<0>(row0, row1, column0, column1, c, result + c, channels - c);
    }
  }

  template <std::int64_t Known>
  WEFT_INLINE void channels_of(std::int64_t row0, std::int64_t row1, std::int64_t column0, std::int64_t column1,
                               std::int64_t c, std::int64_t result, std::int64_t given) const {
    const std::int64_t n = Known ? Known : given;
    const auto at = [&](std::int64_t i, std::int64_t j) { return (i * s.width + j) * s.channels + c; };
    const T count =
        static_cast<T>(s.counts_padding ? s.window_height * s.window_width : (row1 - row0) * (column1 - column0));
    if constexpr (Kind == pool_kind::average_gradient) {
      for (std::int64_t i = row0; i < row1; ++i)
        for (std::int64_t j = column0; j < column1; ++j) {
          T* const to = out + at(i, j);
          WEFT_VECTORIZE
          for (std::int64_t k = 0; k < n; ++k) to[k] += a[result + k] / count;
        }
      return;
    }
    T best[32];
    std::int32_t where[32];
    if constexpr (Kind == pool_kind::average) {  // row by row, to limit rounding in large windows
      if constexpr (Known != 0) {
        // Vectors as variables, since arrays would be stored and loaded for each element of the window. So would
        // vectors that are wider than the registers of AVX2.
        typedef T lanes __attribute__((vector_size(32)));
        constexpr std::int64_t vectors = Known * static_cast<std::int64_t>(sizeof(T)) / 32;
        constexpr std::int64_t wide = Known / vectors;
        for (std::int64_t v = 0; v < vectors; ++v) {
          lanes sum = {};
          for (std::int64_t i = row0; i < row1; ++i) {
            lanes row = {};
            for (std::int64_t j = column0; j < column1; ++j) {
              lanes x;
              __builtin_memcpy(&x, a + at(i, j) + v * wide, sizeof x);
              row += x;
            }
            sum += row;
          }
          sum /= count;
          __builtin_memcpy(out + result + v * wide, &sum, sizeof sum);
        }
      } else {
        for (std::int64_t k = 0; k < n; ++k) best[k] = 0;
        for (std::int64_t i = row0; i < row1; ++i) {
          T row[32];
          for (std::int64_t k = 0; k < n; ++k) row[k] = 0;
          for (std::int64_t j = column0; j < column1; ++j) {
            const T* const from = a + at(i, j);
            WEFT_VECTORIZE
            for (std::int64_t k = 0; k < n; ++k) row[k] += from[k];
          }
          for (std::int64_t k = 0; k < n; ++k) best[k] += row[k];
        }
        for (std::int64_t k = 0; k < n; ++k) out[result + k] = best[k] / count;
      }
      return;
    }
    const T* const first = a + at(row0, column0);
    for (std::int64_t k = 0; k < n; ++k) best[k] = first[k], where[k] = 0;
    std::int32_t number = 0;
    for (std::int64_t i = row0; i < row1; ++i)
      for (std::int64_t j = column0; j < column1; ++j, ++number) {
        if (number == 0) continue;
        const T* const from = a + at(i, j);
        WEFT_VECTORIZE
        for (std::int64_t k = 0; k < n; ++k) {
          const T value = from[k];
          const bool larger = beats(value, best[k]);
          best[k] = larger ? value : best[k];
          if constexpr (Kind != pool_kind::max) where[k] = larger ? number : where[k];
        }
      }
    if constexpr (Kind == pool_kind::max) {
      for (std::int64_t k = 0; k < n; ++k) out[result + k] = best[k];
    } else {
      number = 0;
      for (std::int64_t i = row0; i < row1; ++i)
        for (std::int64_t j = column0; j < column1; ++j, ++number) {
          if constexpr (Kind == pool_kind::max_gradient) {
            T* const to = out + at(i, j);
            WEFT_VECTORIZE
            for (std::int64_t k = 0; k < n; ++k) {
              const T up = b[result + k];
              to[k] += where[k] == number ? up : T(0);
            }
          } else {
            const T* const from = b + at(i, j);
            T* const to = out + result;
            WEFT_VECTORIZE
            for (std::int64_t k = 0; k < n; ++k) {
              const T value = from[k], other = to[k];
              to[k] = where[k] == number ? value : other;
            }
          }
        }
    }
  }
};

}  // namespace detail

}  // namespace weft::device
