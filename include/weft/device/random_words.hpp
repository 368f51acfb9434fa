// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/unsigned_of.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/random.hpp>

/// The assignment of random words to the elements of an array, on every kind of device. The bits of an element depend
/// only on the key, the position and the element's index.
///
/// An element takes one, two or four words. Philox generates blocks of four words. The blocks of 32 consecutive
/// counters form a group. Its elements take the first words of all 32 blocks in order, then the second words, and so
/// on: element i of an array with one word for each element takes word i / 32 % 4 of block i / 128 * 32 + i % 32. The
/// lanes of a vector or a warp therefore compute separate blocks and hold adjacent elements.
namespace weft::device {

/// The key and the position from which the numbers of one operation in one step are drawn.
struct random_source {
  std::uint64_t key = 0, position = 0;
};

inline constexpr std::size_t blocks_in_group = 32;

/// Returns a position derived from another one and a key, by the finalizer of SplitMix64 (Steele et al., OOPSLA 2014).
WEFT_HOST_DEVICE constexpr std::uint64_t fold_in(std::uint64_t key, std::uint64_t position) {
  std::uint64_t x = position + (key | 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// The number of elements that take their words from one group of blocks.
template <int Words>
inline constexpr std::size_t elements_in_group = 4 / Words * blocks_in_group;

/// Applies dropout to one element (Srivastava et al., JMLR 15, 2014), inverted as in tf.nn.dropout: zero with
/// probability `rate`, otherwise divided by 1 - rate. NaN if the rate is not in [0, 1).
template <class T>
struct dropout_element {
  static constexpr int words = 1;
  using number = accumulator<T>;

  std::uint32_t threshold;
  number scale;

  WEFT_HOST_DEVICE explicit dropout_element(double rate)
      : threshold(is_rate(rate) ? static_cast<std::uint32_t>(rate * 0x1p32) : 0),
        scale(is_rate(rate) ? static_cast<number>(1 / (1 - rate))
                            : static_cast<number>(__builtin_bit_cast(float, 0x7fc00000u))) {}
  WEFT_HOST_DEVICE T operator()(const std::uint32_t* word, T x) const {
    using bits = unsigned_of<sizeof(T)>;
    const T kept = static_cast<T>(static_cast<number>(x) * scale);
    // Avoids a branch, which would be unpredictable.
    const bits all = static_cast<bits>(bits(0) - static_cast<bits>(word[0] >= threshold));
    return __builtin_bit_cast(T, static_cast<bits>(__builtin_bit_cast(bits, kept) & all));
  }
  WEFT_HOST_DEVICE static bool is_rate(double rate) { return rate >= 0 && rate < 1; }
};

/// A uniform number in [low, high), of 24 bits or, for double, 53 bits. Rounded once, so it is the same on every
/// device.
template <class T>
struct uniform_element {
  static constexpr int words = sizeof(T) == 8 ? 2 : 1;

  double low, range;  ///< a float unless T is double, so its product with 24 bits is exact
  T last;             ///< below the end, to which rounding would raise the largest element

  WEFT_HOST_DEVICE T operator()(const std::uint32_t* word) const {
    T x;
    if constexpr (words == 2) {
      const std::uint64_t bits = (static_cast<std::uint64_t>(word[0]) << 32 | word[1]) >> 11;
      const double u = static_cast<double>(bits) * 0x1p-53;
#if defined(__CUDA_ARCH__)
      x = ::fma(range, u, low);
#else
      x = __builtin_fma(range, u, low);
#endif
    } else {
      x = static_cast<T>(static_cast<float>(low + range * (static_cast<double>(word[0] >> 8) * 0x1p-24)));
    }
    return x < last ? x : last;
  }
};

/// Returns the upper half of a 128-bit product.
WEFT_HOST_DEVICE constexpr std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const std::uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

/// An integer in [low, low + range): the upper bits of the product of the range and a random fraction. The fraction has
/// at least 64 bits more than the range (32 for integers below 64 bits), so the relative error of probabilities is
/// below 2^-64 (2^-32) (Lemire, "Fast random integer generation in an interval", ACM TOMACS 29, 2019, without the
/// rejections).
template <class T>
struct integer_element {
  static constexpr int words = sizeof(T) == 8 ? 4 : 2;

  std::uint64_t low, range;

  WEFT_HOST_DEVICE T operator()(const std::uint32_t* word) const {
    const std::uint64_t first = static_cast<std::uint64_t>(word[0]) << 32 | word[1];
    std::uint64_t number = high_product(first, range);
    if constexpr (words == 4) {
      const std::uint64_t second = static_cast<std::uint64_t>(word[2]) << 32 | word[3], part = first * range;
      number += part + high_product(second, range) < part;
    }
    return static_cast<T>(low + number);
  }
};

/// A normal number, by inversion. All CPUs yield the same bits; GPUs may differ in the last bits.
template <class T>
struct normal_element {
  static constexpr int words = sizeof(T) == 8 ? 2 : 1;

  double mean, deviation;

  WEFT_HOST_DEVICE T operator()(const std::uint32_t* word) const { return at(uniform(word)); }

  /// A number in (0, 1).
  WEFT_HOST_DEVICE static double uniform(const std::uint32_t* word) {
    if constexpr (words == 2)
      return (static_cast<double>((static_cast<std::uint64_t>(word[0]) << 32 | word[1]) >> 12) + 0.5) * 0x1p-52;
    else
      return (static_cast<double>(word[0]) + 0.5) * 0x1p-32;
  }
  WEFT_HOST_DEVICE T at(double u) const { return static_cast<T>(static_cast<accumulator<T>>(scaled(u))); }

 private:
  // Not inlined, since callers compiled for other instruction sets would use fused multiply-adds.
  WEFT_HOST_DEVICE __attribute__((noinline)) double scaled(double u) const {
    return mean + deviation * random_stream::inverse_normal(u);
  }
};

/// A normal number that is at most two standard deviations from the mean, by inversion.
template <class T>
struct truncated_normal_element {
  static constexpr int words = normal_element<T>::words;

  normal_element<T> normal;

  WEFT_HOST_DEVICE T operator()(const std::uint32_t* word) const {
    constexpr double below = 0.02275013194817921;  // Phi(-2)
    return normal.at(below + normal_element<T>::uniform(word) * (1 - 2 * below));
  }
};

}  // namespace weft::device
