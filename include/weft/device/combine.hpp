// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/config.hpp>
#include <weft/device/sort.hpp>

namespace weft {

/// Selects what a write by index does with the element that is already there. `update` replaces it, so the last of
/// several elements with one index remains. `min` and `max` return NaN if either element is NaN.
enum class combine : unsigned char { update, add, mul, min, max };

namespace device {

/// Returns the combination of two elements. Half and bfloat16 are combined in float.
template <combine How, class T>
WEFT_HOST_DEVICE constexpr T combined(T there, T with) {
  if constexpr (How == combine::update) {
    return with;
  } else if constexpr (How == combine::add) {
    return static_cast<T>(there + with);
  } else if constexpr (How == combine::mul) {
    return static_cast<T>(there * with);
  } else {
    // Two selections without a branch, so that loops vectorize.
    const T found = How == combine::min ? (with < there ? with : there) : (there < with ? with : there);
    return with != with ? with : found;
  }
}

/// Returns the number with which a combination begins: the finite number that changes no finite number, or the infinity
/// that changes no number, and 0 for an update.
template <class T>
WEFT_HOST_DEVICE constexpr T start_of(combine how, bool infinite = false) {
  if (how == combine::update || how == combine::add) return T();
  if (how == combine::mul) return static_cast<T>(1);
  if constexpr (std::is_same_v<T, bool>) {
    return how == combine::min;
  } else {
    using bits = unsigned_of<sizeof(T)>;
    constexpr bits sign = static_cast<bits>(bits{1} << (8 * sizeof(T) - 1));
    if constexpr (weft::detail::infinity_bits<T> != 0) {
      const bits highest = static_cast<bits>(weft::detail::infinity_bits<T> - !infinite);
      return __builtin_bit_cast(T, how == combine::min ? highest : static_cast<bits>(highest | sign));
    } else {
      constexpr bits highest = std::is_signed_v<T> ? static_cast<bits>(~sign) : static_cast<bits>(~bits{});
      return __builtin_bit_cast(T, how == combine::min ? highest : static_cast<bits>(~highest));
    }
  }
}

}  // namespace device
}  // namespace weft
