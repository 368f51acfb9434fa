// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/config.hpp>

// The functions of device/cpu/math.hpp for GPU kernels, based on CUDA's; that header includes this one when it is
// compiled for a GPU. CUDA's programming guide states their errors, at most 2 units in the last place (powf 4, sigmoid
// 3).

#if defined(__CUDA_ARCH__)

  #include <cstdint>

namespace weft::math {

namespace detail {

__device__ inline std::uint32_t bits(float x) { return __float_as_uint(x); }
__device__ inline std::uint64_t bits(double x) { return static_cast<std::uint64_t>(__double_as_longlong(x)); }
__device__ inline float as_float(std::uint32_t x) { return __uint_as_float(x); }
__device__ inline double as_double(std::uint64_t x) { return __longlong_as_double(static_cast<long long>(x)); }
__host__ __device__ inline float select(bool condition, float a, float b) { return condition ? a : b; }
__host__ __device__ inline double select(bool condition, double a, double b) { return condition ? a : b; }
template <class T>
__host__ __device__ inline bool is_zero(T x) {
  return x == T(0);
}
template <class T>
__host__ __device__ inline bool is_above(T a, T b) {
  return a > b;
}

}  // namespace detail

__host__ __device__ inline float abs(float x) { return ::fabsf(x); }
__host__ __device__ inline double abs(double x) { return ::fabs(x); }
__host__ __device__ inline float sqrt(float x) { return ::sqrtf(x); }
__host__ __device__ inline double sqrt(double x) { return ::sqrt(x); }
__host__ __device__ inline float floor(float x) { return ::floorf(x); }
__host__ __device__ inline double floor(double x) { return ::floor(x); }
__host__ __device__ inline float maximum(float a, float b) { return ((a > b) | (a != a)) ? a : b; }
__host__ __device__ inline double maximum(double a, double b) { return ((a > b) | (a != a)) ? a : b; }
__host__ __device__ inline float minimum(float a, float b) { return ((a < b) | (a != a)) ? a : b; }
__host__ __device__ inline double minimum(double a, double b) { return ((a < b) | (a != a)) ? a : b; }
__host__ __device__ inline float exp(float x) { return ::expf(x); }
__host__ __device__ inline double exp(double x) { return ::exp(x); }
__host__ __device__ inline float expm1(float x) { return ::expm1f(x); }
__host__ __device__ inline double expm1(double x) { return ::expm1(x); }
__host__ __device__ inline float log(float x) { return ::logf(x); }
__host__ __device__ inline double log(double x) { return ::log(x); }
__host__ __device__ inline float log1p(float x) { return ::log1pf(x); }
__host__ __device__ inline double log1p(double x) { return ::log1p(x); }
__host__ __device__ inline float sigmoid(float x) {
  const float e = ::expf(-::fabsf(x));
  return __fdividef(x < 0.0f ? e : 1.0f, 1.0f + e);  // the divisor is in [1, 2]
}
__host__ __device__ inline double sigmoid(double x) {
  const double e = ::exp(-::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
__host__ __device__ inline float tanh(float x) { return ::tanhf(x); }
__host__ __device__ inline double tanh(double x) { return ::tanh(x); }
__host__ __device__ inline float pow(float x, float y) { return ::powf(x, y); }
__host__ __device__ inline double pow(double x, double y) { return ::pow(x, y); }

}  // namespace weft::math

#endif
