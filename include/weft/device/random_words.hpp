#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/unsigned_of.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/random.hpp>

/// How the elements of an array take their random words, on every kind of device: which bits an element gets depends on
/// the key, the position and its number alone.
///
/// An element takes one word, two or four. Philox makes blocks of four; those of 32 neighbouring counters are a group,
/// whose elements in their order take the first words of all 32 blocks, then the second ones, and so on: element i of
/// an array that takes one word each has word i / 32 % 4 of block i / 128 * 32 + i % 32. So the lanes of a vector, or
/// of a warp, compute blocks of their own and hold neighbours.
namespace weft::device {

/// The key and the position with which the numbers of one operation in one step are drawn.
struct random_source {
  std::uint64_t key = 0, position = 0;
};

inline constexpr std::size_t blocks_in_group = 32;

/// A position made of another one and a key, by the finalizer of SplitMix64 (Steele et al., OOPSLA 2014).
WEFT_HOST_DEVICE constexpr std::uint64_t fold_in(std::uint64_t key, std::uint64_t position) {
  std::uint64_t x = position + (key | 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// So many elements take their words from one group of blocks.
template <int Words>
inline constexpr std::size_t elements_in_group = 4 / Words * blocks_in_group;

/// One element of a dropout (Srivastava et al., JMLR 15, 2014), inverted as in tf.nn.dropout: zero at the given rate,
/// and divided by 1 - rate elsewhere. NaN at a rate that is not in [0, 1).
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
    // Without a branch, which nobody could predict.
    const bits all = static_cast<bits>(bits(0) - static_cast<bits>(word[0] >= threshold));
    return __builtin_bit_cast(T, static_cast<bits>(__builtin_bit_cast(bits, kept) & all));
  }
  WEFT_HOST_DEVICE static bool is_rate(double rate) { return rate >= 0 && rate < 1; }
};

/// One number that is uniform in [low, high), of 24 bits or, in double, 53. Rounded once, so that it is the same
/// wherever it is computed.
template <class T>
struct uniform_element {
  static constexpr int words = sizeof(T) == 8 ? 2 : 1;

  double low, range;  ///< unless T is double, range is a float: its product with 24 bits is exact
  T last;             ///< below the end, to which rounding would take the largest

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

/// The upper half of a product of 128 bits.
WEFT_HOST_DEVICE constexpr std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const std::uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

/// One integer of [low, low + range): the upper bits of the product of the range and a random fraction, which has 64
/// bits more than the range at least (32, of integers below 64 bits): probabilities differ by less than 2^-64 (2^-32)
/// of themselves (Lemire, "Fast random integer generation in an interval", ACM TOMACS 29, 2019, without the
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

/// One normal number, by inversion. On all CPUs it is the same, on GPUs up to its last bits.
template <class T>
struct normal_element {
  static constexpr int words = sizeof(T) == 8 ? 2 : 1;

  double mean, deviation;

  WEFT_HOST_DEVICE T operator()(const std::uint32_t* word) const {
    double u;  // in (0, 1)
    if constexpr (words == 2)
      u = (static_cast<double>((static_cast<std::uint64_t>(word[0]) << 32 | word[1]) >> 12) + 0.5) * 0x1p-52;
    else
      u = (static_cast<double>(word[0]) + 0.5) * 0x1p-32;
    return static_cast<T>(static_cast<accumulator<T>>(scaled(u)));
  }

 private:
  // Not inlined into code for other instructions, which have fused multiply-adds.
  WEFT_HOST_DEVICE __attribute__((noinline)) double scaled(double u) const {
    return mean + deviation * random_stream::inverse_normal(u);
  }
};

}  // namespace weft::device
