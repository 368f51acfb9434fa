// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/compiler.hpp>

namespace weft {
namespace detail {

// Converts the bits of an entry of `literals` to a number.

template <class T>
WEFT_HOST_DEVICE T literal_value(std::uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
std::uint64_t literal_bits(T value) {
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return bits;
}

}  // namespace detail

}  // namespace weft
