// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include <weft/error.hpp>

namespace weft {

/// Fills the bytes with cryptographic random numbers from the system.
inline void fill_random(std::span<std::byte> bytes) {
  constexpr std::size_t max_at_once = 256;
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), max_at_once);
    if (::getentropy(bytes.data(), n) != 0)
      throw error(error_code::internal, "random", "the system provides no random numbers");
    bytes = bytes.subspan(n);
  }
}

/// The same, from the network's own generator if it has one: a simulated network makes runs repeatable.
template <typename Network>
void fill_random(Network& network, std::span<std::byte> bytes) {
  if constexpr (requires { network.fill_random(bytes); })
    network.fill_random(bytes);
  else
    fill_random(bytes);
}

}  // namespace weft
