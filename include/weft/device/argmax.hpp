// SPDX-License-Identifier: BSL-1.0
#pragma once

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

}  // namespace weft::device
