// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/device/cpu/math.hpp>

namespace weft {

/// A number whose sums, products, quotients and roots are rounded separately: no compiler contracts them to a fused
/// multiply-add. A formula over such numbers has the same bits on a CPU, on a GPU and on a parameter server. Plain
/// numbers convert to the other operand's type: `0.5 * x` is `V(0.5) * x`, where V is the type of x.
///
/// On a CPU, the enclosing function must be WEFT_UNFUSED (see ops/cpu/unfused.hpp), so that g++ does not contract.
template <class T>
class exact {
 public:
  exact() = default;
  template <class Num>
  WEFT_HOST_DEVICE WEFT_INLINE explicit(!std::is_arithmetic_v<Num>) exact(Num x) : value_(static_cast<T>(x)) {}

  WEFT_HOST_DEVICE WEFT_INLINE T value() const { return value_; }

#if defined(__CUDA_ARCH__)
  #define WEFT_EXACT(name, host, single, wide)                \
    friend __host__ __device__ exact name(exact a, exact b) { \
      if constexpr (sizeof(T) == 4)                           \
        return exact(single(a.value_, b.value_));             \
      else                                                    \
        return exact(wide(a.value_, b.value_));               \
    }
#else
  #define WEFT_EXACT(name, host, single, wide) \
    friend WEFT_HOST_DEVICE WEFT_INLINE exact name(exact a, exact b) { return exact(a.value_ host b.value_); }
#endif
  WEFT_EXACT(operator+, +, __fadd_rn, __dadd_rn)
  WEFT_EXACT(operator-, -, __fsub_rn, __dsub_rn)
  WEFT_EXACT(operator*, *, __fmul_rn, __dmul_rn)
  WEFT_EXACT(operator/, /, __fdiv_rn, __ddiv_rn)
#undef WEFT_EXACT

  friend WEFT_HOST_DEVICE WEFT_INLINE exact operator-(exact a) { return exact(-a.value_); }
  friend WEFT_HOST_DEVICE WEFT_INLINE exact& operator+=(exact& a, exact b) { return a = a + b; }
  friend WEFT_HOST_DEVICE WEFT_INLINE exact& operator-=(exact& a, exact b) { return a = a - b; }
  friend WEFT_HOST_DEVICE WEFT_INLINE exact& operator*=(exact& a, exact b) { return a = a * b; }
  friend WEFT_HOST_DEVICE WEFT_INLINE exact& operator/=(exact& a, exact b) { return a = a / b; }
  friend WEFT_HOST_DEVICE WEFT_INLINE bool operator<(exact a, exact b) { return a.value_ < b.value_; }
  friend WEFT_HOST_DEVICE WEFT_INLINE bool operator>(exact a, exact b) { return a.value_ > b.value_; }

  friend WEFT_HOST_DEVICE WEFT_INLINE exact abs(exact a) { return a.value_ < T(0) ? -a : a; }
  /// Returns the larger number, or the second if either is NaN.
  friend WEFT_HOST_DEVICE WEFT_INLINE exact max(exact a, exact b) { return a.value_ > b.value_ ? a : b; }
  /// Returns the smaller number, or the second if either is NaN.
  friend WEFT_HOST_DEVICE WEFT_INLINE exact min(exact a, exact b) { return a.value_ < b.value_ ? a : b; }
  friend WEFT_HOST_DEVICE WEFT_INLINE exact sqrt(exact a) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(T) == 4)
      return exact(__fsqrt_rn(a.value_));
    else
      return exact(__dsqrt_rn(a.value_));
#else
    return exact(math::sqrt(a.value_));
#endif
  }

 private:
  T value_;
};

}  // namespace weft
