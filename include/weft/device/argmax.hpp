#pragma once

#include <weft/tensor/dtype.hpp>

namespace weft::device {

/// The value that the first element of a row must exceed to be its largest: the lowest finite number. A NaN is larger
/// than nothing, so a row of NaNs has none, and its index is 0. This is what TensorFlow's kernel for CPUs does.
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
