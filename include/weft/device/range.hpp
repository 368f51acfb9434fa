// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/config.hpp>

namespace weft::device {

/// Returns element i of an arithmetic sequence; integers wrap around.
template <class T, class Index>
WEFT_HOST_DEVICE inline T range_element(T start, T delta, Index i) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<unsigned long long>(start) +
                          static_cast<unsigned long long>(delta) * static_cast<unsigned long long>(i));
  else
    return start + static_cast<T>(i) * delta;
}

}  // namespace weft::device
