// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/compiler.hpp>

namespace weft {

/// IEEE 754 binary16, a storage type: converts to and from float, rounding to nearest even. Storage types support
/// `cast`, `matmul`, `conv2d`, pools, `reshape`, `transpose`, running sums and sorts, with gradients. For arithmetic,
/// use `cast<float>(x)`.
struct half {
  std::uint16_t bits = 0;
  half() = default;
  WEFT_HOST_DEVICE constexpr half(float value) {
#if defined(__CUDA_ARCH__)
    if (!__builtin_is_constant_evaluated()) {
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
      return;
    }
#endif
    const auto f = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t sign = (f >> 16) & 0x8000u, magnitude = f & 0x7fffffffu;
    // Branchless, so that loops vectorize. For subnormal results, adding 0.5 rounds to a multiple of 2^-24, the unit of
    // subnormals.
    const bool normal = magnitude >= 0x38800000u;
    const float sum = __builtin_bit_cast(float, normal ? 0 : magnitude) + 0.5f;
    const std::uint32_t rounded = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const std::uint32_t finite = normal ? rounded : __builtin_bit_cast(std::uint32_t, sum) - 0x3f000000u;
    const std::uint32_t infinite = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const std::uint32_t h = magnitude >= 0x477ff000u ? infinite : finite;
    bits = static_cast<std::uint16_t>(sign | h);
  }
  template <class Num>
    requires std::is_arithmetic_v<Num>
  WEFT_HOST_DEVICE constexpr explicit half(Num value) : half(static_cast<float>(value)) {}
  WEFT_HOST_DEVICE constexpr operator float() const {
#if defined(__CUDA_ARCH__)
    if (!__builtin_is_constant_evaluated()) {
      float value;
      asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
      return value;
    }
#endif
    const std::uint32_t magnitude = bits & 0x7fffu, shifted = magnitude << 13;
    const std::uint32_t normal = shifted + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
    const float sum = __builtin_bit_cast(float, shifted + 0x38800000u);  // 2^-14 plus a subnormal
    const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, sum - 0x1p-14f);
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    return __builtin_bit_cast(float, sign | (magnitude < 0x400u ? subnormal : normal));
  }
};

/// The upper half of an IEEE 754 binary32, a storage type like half: converts to and from float, rounding to nearest
/// even.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  WEFT_HOST_DEVICE constexpr bfloat16(float value) {
    const auto f = __builtin_bit_cast(std::uint32_t, value);
    const bool nan = (f & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (f >> 16) | 0x40u : (f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
  }
  template <class Num>
    requires std::is_arithmetic_v<Num>
  WEFT_HOST_DEVICE constexpr explicit bfloat16(Num value) : bfloat16(static_cast<float>(value)) {}
  WEFT_HOST_DEVICE constexpr operator float() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
};

/// The element type as a run-time value.
enum class dtype : unsigned char {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64
};

/// Returns the size of one element in bytes.
constexpr std::size_t size_of(dtype type) {
  constexpr std::size_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return sizes[static_cast<std::size_t>(type)];
}

/// Returns the name of the C++ type: "float", "int32", "half".
constexpr const char* name(dtype type) {
  constexpr const char* names[] = {"bool",   "int8",   "int16", "int32",    "int64", "uint8", "uint16",
                                   "uint32", "uint64", "half",  "bfloat16", "float", "double"};
  return names[static_cast<std::size_t>(type)];
}

/// Returns true for half, bfloat16, float and double.
constexpr bool is_floating(dtype type) { return type >= dtype::float16; }

/// Properties of an element type T: `supported` and, if so, its `type`, a dtype.
template <class T>
struct element {
  static constexpr bool supported = false;
};

namespace detail {
template <class T, dtype Type>
struct known_element {
  using value_type = T;
  static constexpr bool supported = true;
  static constexpr dtype type = Type;
};
}  // namespace detail

template <>
struct element<bool> : detail::known_element<bool, dtype::boolean> {};
template <>
struct element<std::int8_t> : detail::known_element<std::int8_t, dtype::int8> {};
template <>
struct element<std::int16_t> : detail::known_element<std::int16_t, dtype::int16> {};
template <>
struct element<std::int32_t> : detail::known_element<std::int32_t, dtype::int32> {};
template <>
struct element<std::int64_t> : detail::known_element<std::int64_t, dtype::int64> {};
template <>
struct element<std::uint8_t> : detail::known_element<std::uint8_t, dtype::uint8> {};
template <>
struct element<std::uint16_t> : detail::known_element<std::uint16_t, dtype::uint16> {};
template <>
struct element<std::uint32_t> : detail::known_element<std::uint32_t, dtype::uint32> {};
template <>
struct element<std::uint64_t> : detail::known_element<std::uint64_t, dtype::uint64> {};
template <>
struct element<half> : detail::known_element<half, dtype::float16> {};
template <>
struct element<bfloat16> : detail::known_element<bfloat16, dtype::bfloat16> {};
template <>
struct element<float> : detail::known_element<float, dtype::float32> {};
template <>
struct element<double> : detail::known_element<double, dtype::float64> {};

/// The dtype of an element type.
template <class T>
inline constexpr dtype dtype_of = element<T>::type;

/// A type that can be the element of a tensor.
template <class T>
concept Element = element<T>::supported;

/// True for types that only store values; arithmetic uses float.
template <class T>
inline constexpr bool is_storage_type = false;
template <>
inline constexpr bool is_storage_type<half> = true;
template <>
inline constexpr bool is_storage_type<bfloat16> = true;

/// The type in which products of T are accumulated.
template <class T>
using accumulator = std::conditional_t<is_storage_type<T>, float, T>;

/// Converts an integer to an unsigned type in which sums and products wrap around: signed types overflow, and short
/// unsigned types are promoted to int. Returns other values unchanged.
template <class T>
WEFT_HOST_DEVICE constexpr auto wrapping(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<std::conditional_t<(sizeof(T) > sizeof(std::uint32_t)), std::uint64_t, std::uint32_t>>(x);
  else
    return x;
}

/// True for types whose values have gradients: float, double, half, bfloat16.
template <class T>
inline constexpr bool is_differentiable = std::is_floating_point_v<T> || is_storage_type<T>;

}  // namespace weft
