// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <type_traits>

#include <weft/config.hpp>

namespace weft::detail {

/// Converts elements [first, first + count) to double. Type-erased code calls it through a function pointer.
template <class T>
void read_elements(const void* data, std::size_t first, std::size_t count, double* to) {
  const T* const from = static_cast<const T*>(data) + first;
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_arithmetic_v<T>)
      to[i] = static_cast<double>(from[i]);
    else
      to[i] = static_cast<double>(static_cast<float>(from[i]));
  }
}

}  // namespace weft::detail
