// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>

#include <weft/device/cpu/math.hpp>

// Elementary functions beyond those of math.hpp, for the operations of ops/elementwise/trigonometry.hpp, special.hpp
// and rounding.hpp, which state their errors. Vectorizable like the functions of math.hpp, except for those that call
// libm: tan, log2 and log10 of double, fmod, lgamma and erfinv; erfinv, digamma and trigamma branch.

namespace weft::math::detail {

template <class T>
concept real = std::is_floating_point_v<T>;
template <class T>
inline constexpr bool is_float = sizeof(T) == sizeof(float);

}  // namespace weft::math::detail

#if defined(__CUDA_ARCH__)

  #define WEFT_OF_CUDA(name, cuda)                                          \
    __host__ __device__ inline float name(float x) { return ::cuda##f(x); } \
    __host__ __device__ inline double name(double x) { return ::cuda(x); }
  #define WEFT_OF_CUDA_2(name)                                                          \
    __host__ __device__ inline float name(float a, float b) { return ::name##f(a, b); } \
    __host__ __device__ inline double name(double a, double b) { return ::name(a, b); }
namespace weft::math {
WEFT_OF_CUDA(tan, tan)
WEFT_OF_CUDA(asin, asin)
WEFT_OF_CUDA(acos, acos)
WEFT_OF_CUDA(atan, atan)
WEFT_OF_CUDA(sinh, sinh)
WEFT_OF_CUDA(cosh, cosh)
WEFT_OF_CUDA(asinh, asinh)
WEFT_OF_CUDA(acosh, acosh)
WEFT_OF_CUDA(atanh, atanh)
WEFT_OF_CUDA(erfc, erfc)
WEFT_OF_CUDA(erfinv, erfinv)
WEFT_OF_CUDA(exp2, exp2)
WEFT_OF_CUDA(log2, log2)
WEFT_OF_CUDA(log10, log10)
WEFT_OF_CUDA(lgamma, lgamma)
WEFT_OF_CUDA(round, rint)
WEFT_OF_CUDA(ceil, ceil)
WEFT_OF_CUDA(trunc, trunc)
WEFT_OF_CUDA_2(atan2)
WEFT_OF_CUDA_2(hypot)
WEFT_OF_CUDA_2(fmod)
}  // namespace weft::math
  #undef WEFT_OF_CUDA
  #undef WEFT_OF_CUDA_2

#else

  #if defined(__clang__)
    #pragma float_control(push)
    #if defined(__FAST_MATH__) || __FINITE_MATH_ONLY__
      #pragma float_control(precise, on)
    #else
      #pragma clang fp reassociate(off)
    #endif
  #endif

namespace weft::math {

namespace detail {

WEFT_HOST_DEVICE WEFT_INLINE float with_sign(float x, float sign) { return __builtin_copysignf(x, sign); }
WEFT_HOST_DEVICE WEFT_INLINE double with_sign(double x, double sign) { return __builtin_copysign(x, sign); }

// A constant and what its rounding to T leaves.
template <class T>
inline constexpr T half_pi = is_float<T> ? T(0x1.921fb6p0f) : T(0x1.921fb54442d18p0);
template <class T>
inline constexpr T half_pi_rest = is_float<T> ? T(-0x1.777a5cp-25f) : T(0x1.1a62633145c07p-54);

// atan(a / b) of a, b >= 0 that are not both 0 or infinite. Subtracts an angle of 0, pi / 4 or pi / 2, so that the
// tangent of the rest is at most tan(pi / 8).
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE T angle(T a, T b) {
  const bool steep = a > T(2.414213562373095) * b, middle = a > T(0.41421356237309503) * b;
  const T t = select(steep, -b, select(middle, a - b, a)) / select(steep, a, select(middle, a + b, b));
  const T s = t * t;
  T p;
  if constexpr (is_float<T>)
    p = polynomial(s, -0x1.555554p-2f, 0x1.99973p-3f, -0x1.242036p-3f, 0x1.b8103p-4f, -0x1.08455ep-4f);
  else
    p = polynomial(s, -0x1.5555555555555p-2, 0x1.999999999934cp-3, -0x1.2492492436201p-3, 0x1.c71c71853d7fap-4,
                   -0x1.745d0b28a7e37p-4, 0x1.3b1263064f6b9p-4, -0x1.10fa77b1a6d57p-4, 0x1.dfe6497e96323p-5,
                   -0x1.a0999c632b6edp-5, 0x1.4162c02b1dda3p-5, -0x1.3a31b1c0fd3b7p-6);
  const T turns = select(steep, T(1), select(middle, T(0.5), T(0)));
  return turns * half_pi<T> + kept(t + (t * s * p + turns * half_pi_rest<T>));
}

// asin(r) - r for the square s of r, with r <= 1/2.
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE T asin_tail(T r, T s) {
  T p;
  if constexpr (is_float<T>)
    p = polynomial(s, 0x1.555554p-3f, 0x1.33343p-4f, 0x1.6d5bbap-5f, 0x1.fd8da2p-6f, 0x1.18f91ep-6f, 0x1.13fed4p-5f);
  else
    p = polynomial(s, 0x1.5555555555556p-3, 0x1.3333333332ecap-4, 0x1.6db6db6e31f13p-5, 0x1.f1c71c1db0623p-6,
                   0x1.6e8bb1c8209a2p-6, 0x1.1c4d35cf95421p-6, 0x1.c9cf07674736ap-7, 0x1.782651caa6547p-7,
                   0x1.52420b04b37bep-7, 0x1.65a9c4dfcf8b2p-8, 0x1.1d189408314eep-6, -0x1.e6aaa8a0a04ccp-7,
                   0x1.d72b2bc8155f8p-6);
  return r * s * p;
}

// e^x / 2 for x whose exponential may overflow.
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE T half_exp(T x) {
  const T root = exp(T(0.5) * x);
  return T(0.5) * root * root;
}
template <class T>
inline constexpr T large_exponent = is_float<T> ? T(88) : T(709);

}  // namespace detail

/// Rounds to the nearest integer, and halves to even integers.
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T round(T x) {
  constexpr T whole = detail::is_float<T> ? T(0x1p23) : T(0x1p52);
  const T magnitude = abs(x), r = detail::kept(magnitude + whole) - whole;
  return detail::with_sign(detail::select(magnitude < whole, r, magnitude), x);
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T ceil(T x) {
  return -floor(-x);
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T trunc(T x) {
  return detail::with_sign(floor(abs(x)), x);
}
WEFT_HOST_DEVICE WEFT_INLINE float fmod(float a, float b) { return __builtin_fmodf(a, b); }
WEFT_HOST_DEVICE WEFT_INLINE double fmod(double a, double b) { return __builtin_fmod(a, b); }

WEFT_HOST_DEVICE WEFT_INLINE float tan(float x) { return sin(x) / cos(x); }
WEFT_HOST_DEVICE WEFT_INLINE double tan(double x) { return __builtin_tan(x); }

template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T atan(T x) {
  return detail::with_sign(detail::angle(abs(x), T(1)), x);
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T atan2(T y, T x) {
  T a = abs(y), b = abs(x);
  const bool infinite = detail::both(!detail::below_infinity(a), !detail::below_infinity(b));
  const bool alike = detail::both(infinite, !detail::either(detail::is_nan(x), detail::is_nan(y)));
  constexpr T large = detail::is_float<T> ? T(0x1p120f) : T(0x1p1000);  // the sum of two may overflow
  const T scale = detail::select(detail::either(a > large, b > large), T(0.25), T(1));
  a = detail::select(alike, T(1), a * scale);
  b = detail::select(alike, T(1),
                     detail::select(detail::both(detail::is_zero(x), detail::is_zero(y)), T(1), b * scale));
  const T r = detail::angle(a, b);
  const bool left = detail::with_sign(T(1), x) < T(0);
  const T turned = T(2) * detail::half_pi<T> - (r - T(2) * detail::half_pi_rest<T>);
  return detail::with_sign(detail::select(left, turned, r), y);
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T asin(T x) {
  const T a = abs(x);
  const bool outer = a > T(0.5);
  const T s = detail::select(outer, T(0.5) - T(0.5) * a, a * a), r = detail::select(outer, sqrt(s), a);
  const T y = r + detail::asin_tail(r, s);
  return detail::with_sign(detail::select(outer, detail::half_pi<T> - (T(2) * y - detail::half_pi_rest<T>), y), x);
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T acos(T x) {
  const T a = abs(x);
  const bool outer = a > T(0.5);
  const T s = detail::select(outer, T(0.5) - T(0.5) * a, a * a), r = detail::select(outer, sqrt(s), x);
  const T y = r + detail::asin_tail(r, s);
  const T turned = T(2) * (detail::half_pi<T> - (y - detail::half_pi_rest<T>));
  return detail::select(outer, detail::select(x < T(0), turned, T(2) * y),
                        detail::half_pi<T> - (y - detail::half_pi_rest<T>));
}

template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T sinh(T x) {
  const T a = abs(x), t = expm1(a);
  const T y = detail::select(a > detail::large_exponent<T>, detail::half_exp(a), T(0.5) * (t + t / (t + T(1))));
  return detail::with_sign(y, x);
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T cosh(T x) {
  const T a = abs(x), e = exp(a);
  return detail::select(a > detail::large_exponent<T>, detail::half_exp(a), T(0.5) * e + T(0.5) / e);
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T asinh(T x) {
  const T a = abs(x), square = a * a;
  const bool large = a > (detail::is_float<T> ? T(0x1p12) : T(0x1p28));
  const T t = detail::select(large, a - T(1), a + square / (T(1) + sqrt(T(1) + square)));
  return detail::with_sign(log1p(t) + detail::select(large, T(0.6931471805599453), T(0)), x);
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T acosh(T x) {
  const T t = x - T(1);
  const bool large = x > (detail::is_float<T> ? T(0x1p12) : T(0x1p28));
  const T y = log1p(detail::select(large, t, t + sqrt(t * (t + T(2)))));
  return detail::select(x < T(1), T(__builtin_nan("")), y + detail::select(large, T(0.6931471805599453), T(0)));
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T atanh(T x) {
  const T a = abs(x);
  return detail::with_sign(T(0.5) * log1p((a + a) / (T(1) - a)), x);
}

WEFT_HOST_DEVICE WEFT_INLINE float exp2(float x) {
  x = detail::at_least(-151.0f, detail::at_most(129.0f, x));
  const float t = detail::kept(x + (detail::round_float + 254));
  const float e = exp(0x1.62e43p-1f * (x - detail::kept(t - (detail::round_float + 254))));
  const std::uint32_t biased = detail::bits(t), half = biased >> 1;
  return detail::kept(e * detail::as_float(half << 23)) * detail::as_float((biased - half) << 23);
}
WEFT_HOST_DEVICE WEFT_INLINE double exp2(double x) {
  x = detail::at_least(-1076.0, detail::at_most(1025.0, x));
  const double t = detail::kept(x + detail::round_double);
  const double e = exp(0x1.62e42fefa39efp-1 * (x - detail::kept(t - detail::round_double)));
  const std::uint64_t biased = detail::bits(t) - detail::bits(detail::round_double) + 2046, half = biased >> 1;
  return detail::kept(e * detail::as_double(half << 52)) * detail::as_double((biased - half) << 52);
}
WEFT_HOST_DEVICE WEFT_INLINE float log2(float x) { return static_cast<float>(log(double(x)) * 0x1.71547652b82fep0); }
WEFT_HOST_DEVICE WEFT_INLINE double log2(double x) { return __builtin_log2(x); }
WEFT_HOST_DEVICE WEFT_INLINE float log10(float x) { return static_cast<float>(log(double(x)) * 0x1.bcb7b1526e50ep-2); }
WEFT_HOST_DEVICE WEFT_INLINE double log10(double x) { return __builtin_log10(x); }

WEFT_HOST_DEVICE WEFT_INLINE float hypot(float a, float b) {
  const double x = a, y = b;
  const bool infinite =
      detail::either(detail::is_equal(abs(a), __builtin_inff()), detail::is_equal(abs(b), __builtin_inff()));
  return detail::select(infinite, __builtin_inff(), static_cast<float>(sqrt(x * x + y * y)));
}
WEFT_HOST_DEVICE WEFT_INLINE double hypot(double a, double b) {
  const double m = maximum(abs(a), abs(b));
  const double scale = detail::select(m > 0x1p510, 0x1p-600, detail::select(m < 0x1p-450, 0x1p600, 1.0));
  const double x = a * scale, y = b * scale;
  const bool infinite =
      detail::either(detail::is_equal(abs(a), __builtin_inf()), detail::is_equal(abs(b), __builtin_inf()));
  return detail::select(infinite, __builtin_inf(), sqrt(x * x + y * y) / scale);
}

// e^(-x^2) p(t) / (1 + 2 x) with t = (x - 4) / (x + 4) (Shepherd and Laframboise, Chebyshev approximation of
// (1 + 2 x) exp(x^2) erfc x, 1981).
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T erfc(T x) {
  const T a = abs(x), clamped = detail::at_most(T(30), a), t = (clamped - T(4)) / (clamped + T(4));
  T p;
  if constexpr (detail::is_float<T>)
    p = detail::polynomial(t, 0x1.3ba592p+0f, -0x1.1df1a2p-3f, 0x1.f7e3e4p-7f, 0x1.16e7d2p-4f, -0x1.9dad02p-4f,
                           0x1.80548cp-4f, -0x1.10c354p-4f, 0x1.2a56bp-5f, -0x1.0691dp-6f, 0x1.c2439ap-8f,
                           0x1.b3ebe4p-11f);
  else
    p = detail::polynomial(t, 0x1.3ba5916e9fd7fp+0, -0x1.1df1ad154a292p-3, 0x1.f7f5df66fb8e2p-7, 0x1.16ecefcfa584dp-4,
                           -0x1.9ddb23c3dc1d3p-4, 0x1.7fee004e07d22p-4, -0x1.0fb06dff5a274p-4, 0x1.3079edf7a8004p-5,
                           -0x1.096238569778p-6, 0x1.49c6724c2f5fp-8, -0x1.8d4abf1a18f7p-11, -0x1.a1df14563ae8cp-13,
                           0x1.3be2916d93ab9p-13, -0x1.995829a3bb107p-16, -0x1.78e479aabdfc4p-17, 0x1.7f000d04ab69fp-18,
                           0x1.4d323e28bdae8p-22, -0x1.b7b072abe364bp-21, 0x1.f618f9891841cp-25, 0x1.b54858a4f41b9p-24,
                           -0x1.3f6ce4033552ep-27, -0x1.301ba512b6feap-27);
  const T y = exp_of_minus_square(a) * (p / (T(1) + T(2) * clamped));
  return detail::select(x < T(0), T(2) - y, y);
}

/// The inverse of erf: a series or Winitzki's approximation (2008), then Halley's steps.
WEFT_HOST_DEVICE inline double erfinv(double x) {
  constexpr double half_root_pi = 0.8862269254527580;
  const double a = abs(x);
  if (a >= 1) return a == 1 ? x * __builtin_inf() : __builtin_nan("");
  const bool near = a < 0.5;
  const double w = log((1 - a) * (1 + a)), t = 2 / (3.141592653589793 * 0.147) + 0.5 * w;
  double y = near ? a * (half_root_pi + 0.232 * a * a) : sqrt(sqrt(t * t - w / 0.147) - t);
  for (int step = a < 0.99 ? 1 : 0; step < 3; ++step) {
    const double d = (near ? __builtin_erf(y) - a : 1 - a - __builtin_erfc(y)) * half_root_pi * exp(y * y);
    y -= d / (1 + y * d);
  }
  return detail::with_sign(y, x);
}
WEFT_HOST_DEVICE inline float erfinv(float x) { return static_cast<float>(erfinv(static_cast<double>(x))); }

WEFT_HOST_DEVICE inline double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}
WEFT_HOST_DEVICE inline float lgamma(float x) { return static_cast<float>(lgamma(double(x))); }

}  // namespace weft::math

#endif

// ---- for CPUs and GPUs ----

WEFT_STRICT_BEGIN
namespace weft::math {

namespace detail {

// The bits of |x| less those of infinity: 0 for infinities, positive for NaN. Flags like -ffast-math leave it alone.
template <real T>
WEFT_HOST_DEVICE WEFT_INLINE auto beyond_infinity(T x) {
  if constexpr (is_float<T>)
    return static_cast<std::int32_t>(bits(x) & 0x7fffffffu) - std::int32_t{0x7f800000};
  else
    return static_cast<std::int64_t>(bits(x) & 0x7fffffffffffffffu) - std::int64_t{0x7ff0000000000000};
}

}  // namespace detail

template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE bool is_nan(T x) {
  return detail::beyond_infinity(x) > 0;
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE bool is_inf(T x) {
  return detail::beyond_infinity(x) == 0;
}
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE bool is_finite(T x) {
  return detail::beyond_infinity(x) < 0;
}

namespace detail {

/// True if the remainder r of a division by b is to get the sign of b.
template <real T>
WEFT_HOST_DEVICE WEFT_INLINE bool is_of_other_sign(T r, T b) {
  return !is_zero(r) & ((r < T(0)) != (b < T(0)));
}

}  // namespace detail

/// The remainder of a / b, with the sign of b.
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T floor_mod(T a, T b) {
  const T r = fmod(a, b);
  return select(detail::is_of_other_sign(r, b), r + b, r);
}
/// The integer q with a = q b + floor_mod(a, b), and a / b if b is 0.
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T floor_div(T a, T b) {
  const T r = fmod(a, b);
  const T q = round((a - r) / b) - select(detail::is_of_other_sign(r, b), T(1), T(0));
  return select(detail::is_zero(b), a / b, q);
}

/// sin(pi x) / (pi x), and 1 at 0. Subtracts whole half turns exactly.
template <detail::real T>
WEFT_HOST_DEVICE WEFT_INLINE T sinc(T x) {
  constexpr T pi = T(3.141592653589793);
  const T a = abs(x), whole = floor(a), part = a - whole;
  const T odd = whole - T(2) * floor(T(0.5) * whole);
  const T y = (T(1) - (odd + odd)) * sin(pi * select(part > T(0.5), T(1) - part, part)) / (pi * a);
  return select(detail::is_zero(x), T(1), y);
}

/// The derivative of lgamma: the asymptotic series beyond 10, recurrence below, and reflection of negative numbers.
WEFT_HOST_DEVICE inline double digamma(double x) {
  constexpr double pi = 3.141592653589793;
  double y = 0;
  if (x == 0) return -1 / x;
  if (x < 0) {
    const double part = x - round(x);
    y = part == 0 ? part / part : -pi / tan(pi * part);
    x = 1 - x;
  }
  for (; x < 10; x += 1) y -= 1 / x;
  const double s = 1 / (x * x);
  const double series =
      s * (1.0 / 12 - s * (1.0 / 120 -
                           s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (691.0 / 32760 - s * (1.0 / 12)))))));
  return y + (log(x) - 0.5 / x - series);
}
WEFT_HOST_DEVICE inline float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }

/// The derivative of digamma.
WEFT_HOST_DEVICE inline double trigamma(double x) {
  constexpr double pi = 3.141592653589793;
  double y = 0, sign = 1;
  if (x < 0) {
    const double root = pi / sin(pi * (x - round(x)));
    y = root * root;
    sign = -1;
    x = 1 - x;
  }
  for (; x < 10; x += 1) y += sign / (x * x);
  const double r = 1 / x, s = r * r;
  const double series =
      1.0 / 6 - s * (1.0 / 30 - s * (1.0 / 42 - s * (1.0 / 30 - s * (5.0 / 66 - s * (691.0 / 2730 - s * (7.0 / 6))))));
  return y + sign * (r + 0.5 * s + s * r * series);
}
WEFT_HOST_DEVICE inline float trigamma(float x) { return static_cast<float>(trigamma(static_cast<double>(x))); }

}  // namespace weft::math
WEFT_STRICT_END

#if !defined(__CUDA_ARCH__) && defined(__clang__)
  #pragma float_control(pop)
#endif
