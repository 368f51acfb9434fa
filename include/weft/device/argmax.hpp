// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/tensor/dtype.hpp>

namespace weft::device {

/// Returns the value that an element must exceed to be the largest of its row: the lowest finite number. A NaN exceeds
/// nothing, so the index of a row of NaNs is 0, as in TensorFlow's CPU kernel.
template <class T>
WEFT_HOST_DEVICE constexpr T below_all() {
  if constexpr (std::is_same_v<T, double>)
    return -__DBL_MAX__;
  else if constexpr (std::is_same_v<T, half>)
    return half(-65504.0f);
  else if constexpr (std::is_same_v<T, bfloat16>)
    return bfloat16(-0x1.fep127f);
  else if constexpr (std::is_same_v<T, float>)
    return -__FLT_MAX__;
  else
    return static_cast<T>(T(-1) < T(0) ? T(1) << (8 * sizeof(T) - 1) : 0);
}

/// Writes the index of the largest element of each row; element k of row (o, i) is at (o * extent + k) * inner + i.
template <class T>
void argmax_rows(const T* x, std::int32_t* to, std::size_t outer, std::size_t extent, std::size_t inner) {
  for (std::size_t o = 0; o < outer; ++o, x += extent * inner)
    for (std::size_t i = 0; i < inner; ++i) {
      T largest = below_all<T>();
      std::size_t best = 0;
      for (std::size_t k = 0; k < extent; ++k)
        if (const T value = x[k * inner + i]; value > largest) largest = value, best = k;
      *to++ = static_cast<std::int32_t>(best);
    }
}

}  // namespace weft::device
