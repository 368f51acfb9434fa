// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/config.hpp>

namespace weft::detail {

/// Writes an integer in little-endian order.
template <typename Integer>
void put_little(void* to, Integer value) {
  const auto bits = static_cast<std::uint64_t>(value);
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(bits >> (8 * i));
}

/// Reads a little-endian integer.
template <typename Integer>
Integer get_little(const void* from) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    bits |= static_cast<std::uint64_t>(static_cast<const unsigned char*>(from)[i]) << (8 * i);
  return static_cast<Integer>(bits);
}

}  // namespace weft::detail
