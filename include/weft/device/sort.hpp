// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/config.hpp>
#include <weft/device/unsigned_of.hpp>
#include <weft/tensor/dtype.hpp>

namespace weft {

/// The order of a sort.
enum class direction : unsigned char { ascending, descending };

namespace detail {

/// The bits of infinity; 0 for integers.
template <class T>
inline constexpr std::uint64_t infinity_bits = 0;
template <>
inline constexpr std::uint64_t infinity_bits<half> = 0x7c00;
template <>
inline constexpr std::uint64_t infinity_bits<bfloat16> = 0x7f80;
template <>
inline constexpr std::uint64_t infinity_bits<float> = 0x7f800000;
template <>
inline constexpr std::uint64_t infinity_bits<double> = 0x7ff0000000000000;

}  // namespace detail

/// The type of sort keys, an unsigned integer.
template <class T>
using sort_key = unsigned_of<sizeof(T)>;

/// Returns the key of an element, such that ascending keys correspond to the requested order. Maps -0 to 0 and all NaNs
/// to one key, larger than all numbers. Works only on bits, so it is correct under -ffast-math too.
template <class T>
WEFT_HOST_DEVICE constexpr sort_key<T> key_of(T x, direction d) {
  using key = sort_key<T>;
  constexpr key sign = static_cast<key>(key{1} << (8 * sizeof(T) - 1));
  key k = __builtin_bit_cast(key, x);
  if constexpr (detail::infinity_bits<T> != 0) {
    const key magnitude = static_cast<key>(k & ~sign);
    if (magnitude > static_cast<key>(detail::infinity_bits<T>))
      k = static_cast<key>(~key{0});
    else if (magnitude == 0)
      k = sign;
    else
      k = static_cast<key>(k & sign ? ~k : k | sign);
  } else if constexpr (std::is_signed_v<T>) {
    k = static_cast<key>(k ^ sign);
  }
  return d == direction::descending ? static_cast<key>(~k) : k;
}

}  // namespace weft
