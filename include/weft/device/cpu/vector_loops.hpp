// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <weft/device/cpu/dispatch.hpp>

/// Loops over gradients and values that are transferred between tasks.
namespace weft {
namespace detail {

// Uses AVX2 in a plain -O2 build. Contraction to fused multiply-add stays off, so that every machine, and every path to
// the same sum, yields the same bits.
template <typename Loop>
WEFT_UNFUSED("O3,")
void run_plain(const Loop& loop) {
  loop();
}
#if defined(__x86_64__)
template <typename Loop>
__attribute__((target("avx2"))) WEFT_UNFUSED("O3,") void run_avx2(const Loop& loop) {
  loop();
}
#endif

/// Runs a simple loop, with AVX2 if this processor has it.
template <typename Loop>
void vectorised(const Loop& loop) {
#if defined(__x86_64__)
  if (detected_isa() != isa::baseline) return run_avx2(loop);
#endif
  run_plain(loop);
}

/// Computes to += from.
template <typename T>
void accumulate(T* into, const T* values, std::size_t count) {
  vectorised([=] {
    T* __restrict to = into;
    const T* __restrict from = values;
    for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
  });
}

/// Computes to = a + b.
template <typename T>
void add(T* into, const T* left, const T* right, std::size_t count) {
  vectorised([=] {
    T* __restrict to = into;
    const T* __restrict a = left;
    const T* __restrict b = right;
    for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  });
}

/// Computes to = by * from.
template <typename T>
void scale(T* into, const T* values, std::size_t count, T by) {
  vectorised([=] {
    T* __restrict to = into;
    const T* __restrict from = values;
    for (std::size_t i = 0; i < count; ++i) to[i] = by * from[i];
  });
}

/// Computes values *= by.
template <typename T>
void scale(T* values, std::size_t count, T by) {
  vectorised([=] {
    for (std::size_t i = 0; i < count; ++i) values[i] *= by;
  });
}

template <typename T>
using bits_of = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// Returns a word whose sign bit is set if the value is infinite or NaN.
template <typename T>
constexpr bits_of<T> nonfinite_bit(T value) {
  constexpr bits_of<T> sign = bits_of<T>{1} << (8 * sizeof(T) - 1);
  constexpr bits_of<T> least_exponent = bits_of<T>{1} << (std::numeric_limits<T>::digits - 1);
  return (std::bit_cast<bits_of<T>>(value) & ~sign) + least_exponent;
}

/// Returns true if all values are finite.
template <typename T>
bool all_finite(const T* values, std::size_t count) {
  bits_of<T> seen = 0;
  vectorised([=, &seen] {
    const T* __restrict from = values;
    bits_of<T> any = 0;
    for (std::size_t i = 0; i < count; ++i) any |= nonfinite_bit(from[i]);
    seen = any;
  });
  return (seen >> (8 * sizeof(T) - 1)) == 0;
}

/// Returns true if all values are finite and small enough that no weighted mean of them overflows: |x| < 2^64 in float,
/// 2^512 in double.
template <typename T>
bool all_moderate(const T* values, std::size_t count) {
  constexpr bits_of<T> sign = bits_of<T>{1} << (8 * sizeof(T) - 1);
  constexpr T limit = sizeof(T) == 8 ? static_cast<T>(0x1p512) : static_cast<T>(0x1p64);
  constexpr bits_of<T> to_the_sign = sign - std::bit_cast<bits_of<T>>(limit);
  bits_of<T> seen = 0;
  vectorised([=, &seen] {
    const T* __restrict from = values;
    bits_of<T> any = 0;
    for (std::size_t i = 0; i < count; ++i) any |= (std::bit_cast<bits_of<T>>(from[i]) & ~sign) + to_the_sign;
    seen = any;
  });
  return (seen & sign) == 0;
}

/// Returns the index of the first value that is not finite, or `count` if there is none.
template <typename T>
std::size_t first_nonfinite(const T* values, std::size_t count) {
  constexpr std::size_t at_once = 4096;
  for (std::size_t first = 0; first < count; first += at_once) {
    const std::size_t size = count - first < at_once ? count - first : at_once;
    if (all_finite(values + first, size)) continue;
    for (std::size_t i = first; i < first + size; ++i)
      if (nonfinite_bit(values[i]) >> (8 * sizeof(T) - 1)) return i;
  }
  return count;
}

/// Computes to = (a + b) / by; returns true if all results are finite.
template <typename T>
bool mean_of_two(T* into, const T* left, const T* right, std::size_t count, T by) {
  bits_of<T> seen = 0;
  vectorised([=, &seen] {
    T* __restrict to = into;
    const T* __restrict a = left;
    const T* __restrict b = right;
    bits_of<T> any = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const T mean = (a[i] + b[i]) / by;
      any |= nonfinite_bit(mean);
      to[i] = mean;
    }
    seen = any;
  });
  return (seen >> (8 * sizeof(T) - 1)) == 0;
}

/// Computes values /= by; returns true if all results are finite.
template <typename T>
bool divide(T* values, std::size_t count, T by) {
  bits_of<T> seen = 0;
  vectorised([=, &seen] {
    bits_of<T> any = 0;
    for (std::size_t i = 0; i < count; ++i) {
      values[i] /= by;
      any |= nonfinite_bit(values[i]);
    }
    seen = any;
  });
  return (seen >> (8 * sizeof(T) - 1)) == 0;
}

}  // namespace detail

}  // namespace weft
