// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/tensor/dtype.hpp>

// Elementary functions that compilers vectorise: inline, without branches, tables or calls into libm, so that a loop
// over them becomes vector code (see dispatch.hpp). Special values match C's functions of the same names; errno and
// exception flags are not set. Coefficients are our own minimax fits. Each function states its error in units in the
// last place, over all floats and a dense sweep of doubles; test/device/math_test.cpp checks it.
//
// GPU kernels take the functions in the first part from device/gpu/math.hpp instead. The functions at the end serve
// both.

extern "C" {
// Redeclared as `const` because g++ and clang vectorise a square root only if it cannot write errno.
#if defined(__GLIBC__)
float sqrtf(float) noexcept __attribute__((const));
double sqrt(double) noexcept __attribute__((const));
#else
float sqrtf(float) __attribute__((const));
double sqrt(double) __attribute__((const));
#endif
}

#if defined(__CUDA_ARCH__)
  #include <weft/device/gpu/math.hpp>
#else

  // Flags like -ffast-math let a compiler reassociate sums, including those that round by adding and subtracting a
  // constant, and assume that every number is finite. A pragma forbids this in Clang. g++ would no longer inline
  // functions with such an attribute, so sums that matter are `kept`, and special values are found by their bits.
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

WEFT_HOST_DEVICE WEFT_INLINE std::uint32_t bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }
WEFT_HOST_DEVICE WEFT_INLINE std::uint64_t bits(double x) { return __builtin_bit_cast(std::uint64_t, x); }
WEFT_HOST_DEVICE WEFT_INLINE float as_float(std::uint32_t x) { return __builtin_bit_cast(float, x); }
WEFT_HOST_DEVICE WEFT_INLINE double as_double(std::uint64_t x) { return __builtin_bit_cast(double, x); }

  #if defined(__ASSOCIATIVE_MATH__) && !defined(__clang__) && !defined(__CUDACC__)
// Zero, but unknown to the compiler. (g++ 12 drops __builtin_assoc_barrier when it vectorises a loop.)
__attribute__((used)) inline std::uint64_t nothing = 0;
WEFT_INLINE float kept(float sum) { return as_float(bits(sum) ^ static_cast<std::uint32_t>(nothing)); }
WEFT_INLINE double kept(double sum) { return as_double(bits(sum) ^ nothing); }
  #else
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE T kept(T sum) {
  return sum;
}
  #endif

// condition ? a : b in bit operations: a conditional expression could become a branch, which would prevent
// vectorisation.
//
// With finite math, the mask is used only once: the compiler would compute ~mask by the opposite comparison, and both
// are false for NaN.
WEFT_HOST_DEVICE WEFT_INLINE float select(bool condition, float a, float b) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  #if __FINITE_MATH_ONLY__
  return as_float(bits(b) ^ ((bits(a) ^ bits(b)) & mask));
  #else
  return as_float((bits(a) & mask) | (bits(b) & ~mask));
  #endif
}
WEFT_HOST_DEVICE WEFT_INLINE double select(bool condition, double a, double b) {
  const std::uint64_t mask = std::uint64_t{0} - static_cast<std::uint64_t>(condition);
  #if __FINITE_MATH_ONLY__
  return as_double(bits(b) ^ ((bits(a) ^ bits(b)) & mask));
  #else
  return as_double((bits(a) & mask) | (bits(b) & ~mask));
  #endif
}

// Avoid branches.
WEFT_HOST_DEVICE WEFT_INLINE bool both(bool a, bool b) { return a & b; }
WEFT_HOST_DEVICE WEFT_INLINE bool either(bool a, bool b) { return a | b; }

  // Comparisons that are false for NaN.
  #if __FINITE_MATH_ONLY__
WEFT_HOST_DEVICE WEFT_INLINE bool is_nan(float x) { return (bits(x) & 0x7fffffffu) > 0x7f800000u; }
WEFT_HOST_DEVICE WEFT_INLINE bool is_nan(double x) { return (bits(x) & 0x7fffffffffffffffu) > 0x7ff0000000000000u; }
WEFT_HOST_DEVICE WEFT_INLINE bool is_zero(float x) { return bits(x) << 1 == 0; }
WEFT_HOST_DEVICE WEFT_INLINE bool is_zero(double x) { return bits(x) << 1 == 0; }
WEFT_HOST_DEVICE WEFT_INLINE bool below_infinity(float x) { return bits(x) < 0x7f800000u; }
WEFT_HOST_DEVICE WEFT_INLINE bool below_infinity(double x) { return bits(x) < 0x7ff0000000000000u; }
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE bool is_above(T a, T b) {
  return (a > b) & !is_nan(a) & !is_nan(b);
}
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE bool is_equal(T a, T nonzero) {
  return bits(a) == bits(nonzero);
}
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE T at_most(T limit, T x) {
  return select((x > limit) & !is_nan(x), limit, x);
}
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE T at_least(T limit, T x) {
  return select((x < limit) & !is_nan(x), limit, x);
}
  #else
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE bool is_nan(T x) {
  return x != x;
}
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE bool is_zero(T x) {
  return x == T(0);
}
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE bool is_above(T a, T b) {
  return a > b;
}
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE bool is_equal(T a, T nonzero) {
  return a == nonzero;
}
// Requires x > 0.
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE bool below_infinity(T x) {
  return x < T(__builtin_inff());
}
// Clamp x to a limit; NaN stays NaN.
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE T at_most(T limit, T x) {
  return select(x > limit, limit, x);
}
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE T at_least(T limit, T x) {
  return select(x < limit, limit, x);
}
  #endif

// c0 + c1 x + c2 x^2 + ...
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE T polynomial(T, T c) {
  return c;
}
template <class T, class... Ts>
WEFT_HOST_DEVICE WEFT_INLINE T polynomial(T x, T c0, Ts... c) {
  return c0 + x * polynomial(x, c...);
}

// Adding 1.5 * 2^23 (2^52) rounds to the nearest integer, which the low bits of the sum then contain in two's
// complement.
inline constexpr float round_float = 0x1.8p23f;
inline constexpr double round_double = 0x1.8p52;

// The common part of the exponentials: x = power * ln 2 + remainder, and e^remainder - 1. In float, power + Bias is in
// the low bits of a word, ready to be shifted into an exponent; the bits above are not cleared.
struct exp_parts_float {
  std::uint32_t biased;
  float expm1;
};
struct exp_parts_double {
  std::uint64_t power;
  double expm1;
};

template <int Bias>
WEFT_HOST_DEVICE WEFT_INLINE exp_parts_float split_exp(float x) {
  const float t = kept(x * 0x1.715476p0f + (round_float + Bias));
  const float m = kept(t - (round_float + Bias));
  const float r = kept(x - m * 0x1.63p-1f) + m * 0x1.bd0106p-13f;
  const float q = polynomial(r, 0x1.fffffcp-2f, 0x1.55549p-3f, 0x1.5558f8p-5f, 0x1.123b02p-7f, 0x1.6a2256p-10f);
  return {bits(t), r + r * r * q};
}

WEFT_HOST_DEVICE WEFT_INLINE exp_parts_double split_exp(double x) {
  const double t = kept(x * 0x1.71547652b82fep0 + round_double);
  const double m = kept(t - round_double);
  const double r = kept(x - m * 0x1.62e42feep-1) - m * 0x1.a39ef35793c76p-33;
  const double q =
      polynomial(r, 0.5, 0x1.555555555555bp-3, 0x1.5555555555501p-5, 0x1.111111110ebd0p-7, 0x1.6c16c16c30ad0p-10,
                 0x1.a01a01b3b6381p-13, 0x1.a01a01355729ap-16, 0x1.71ddef9212d18p-19, 0x1.27e5b5b7b3bdfp-22,
                 0x1.af6ce52f9ba07p-26, 0x1.1e3c704a58687p-29);
  return {bits(t) - bits(round_double), r + r * r * q};
}

}  // namespace detail

WEFT_HOST_DEVICE WEFT_INLINE float abs(float x) { return __builtin_fabsf(x); }
WEFT_HOST_DEVICE WEFT_INLINE double abs(double x) { return __builtin_fabs(x); }

WEFT_HOST_DEVICE WEFT_INLINE float sqrt(float x) { return ::sqrtf(x); }
WEFT_HOST_DEVICE WEFT_INLINE double sqrt(double x) { return ::sqrt(x); }

/// Returns the largest integer not above x.
WEFT_HOST_DEVICE WEFT_INLINE float floor(float x) {
  const float magnitude = abs(x);
  float r = detail::kept(magnitude + 0x1p23f) - 0x1p23f;
  r = __builtin_copysignf(detail::select(magnitude < 0x1p23f, r, magnitude), x);
  return r - detail::select(r > x, 1.0f, 0.0f);
}
WEFT_HOST_DEVICE WEFT_INLINE double floor(double x) {
  const double magnitude = abs(x);
  double r = detail::kept(magnitude + 0x1p52) - 0x1p52;
  r = __builtin_copysign(detail::select(magnitude < 0x1p52, r, magnitude), x);
  return r - detail::select(r > x, 1.0, 0.0);
}

/// Returns the larger operand; NaN if either is NaN.
WEFT_HOST_DEVICE WEFT_INLINE float maximum(float a, float b) {
  return detail::select(detail::either(detail::is_above(a, b), detail::is_nan(a)), a, b);
}
WEFT_HOST_DEVICE WEFT_INLINE double maximum(double a, double b) {
  return detail::select(detail::either(detail::is_above(a, b), detail::is_nan(a)), a, b);
}

/// Returns the smaller operand; NaN if either is NaN.
WEFT_HOST_DEVICE WEFT_INLINE float minimum(float a, float b) {
  return detail::select(detail::either(detail::is_above(b, a), detail::is_nan(a)), a, b);
}
WEFT_HOST_DEVICE WEFT_INLINE double minimum(double a, double b) {
  return detail::select(detail::either(detail::is_above(b, a), detail::is_nan(a)), a, b);
}

namespace detail {

// e^x of x at most 89 (710). Clamps x to the range whose results are neither inf nor 0. Applies 2^power in two factors,
// so that both ends round correctly; their product would overflow before the result does.
WEFT_HOST_DEVICE WEFT_INLINE float exp_below(float x) {
  const auto [biased, expm1] = split_exp<254>(at_least(-104.0f, x));
  const std::uint32_t half = biased >> 1;
  return kept((expm1 + 1.0f) * as_float(half << 23)) * as_float((biased - half) << 23);
}
WEFT_HOST_DEVICE WEFT_INLINE double exp_below(double x) {
  const auto [power, expm1] = split_exp(at_least(-746.0, x));
  const std::uint64_t biased = power + 2046;
  const std::uint64_t half = biased >> 1;
  return kept((expm1 + 1.0) * as_double(half << 52)) * as_double((biased - half) << 52);
}

}  // namespace detail

/// e^x.
WEFT_HOST_DEVICE WEFT_INLINE float exp(float x) { return detail::exp_below(detail::at_most(89.0f, x)); }
WEFT_HOST_DEVICE WEFT_INLINE double exp(double x) { return detail::exp_below(detail::at_most(710.0, x)); }

/// e^x - 1.
WEFT_HOST_DEVICE WEFT_INLINE float expm1(float x) {
  x = detail::at_most(89.0f, x);
  const float clamped = detail::at_least(-18.0f, x);
  const auto [biased, expm1] = detail::split_exp<126>(clamped);
  const float half = detail::as_float(biased << 23);
  return detail::select(x == 0.0f, x, 2.0f * detail::kept(half * expm1 + detail::kept(half - 0.5f)));
}
WEFT_HOST_DEVICE WEFT_INLINE double expm1(double x) {
  x = detail::at_most(710.0, x);
  const double clamped = detail::at_least(-40.0, x);
  const auto [power, expm1] = detail::split_exp(clamped);
  const double half = detail::as_double((power + 1022) << 52);
  return detail::select(x == 0.0, x, 2.0 * detail::kept(half * expm1 + detail::kept(half - 0.5)));
}

/// The natural logarithm.
WEFT_HOST_DEVICE WEFT_INLINE float log(float x) {
  constexpr float infinity = __builtin_inff();
  constexpr std::uint32_t sqrt_half = 0x3f3504f3;
  const bool denormal = x < 0x1p-126f;
  const float scaled = detail::select(denormal, x * 0x1p23f, x);
  // scaled = 2^power (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
  const std::uint32_t u = detail::bits(scaled) - sqrt_half;
  const float power = static_cast<float>(static_cast<std::int32_t>(u) >> 23) - detail::select(denormal, 23.0f, 0.0f);
  const float f = detail::as_float((u & 0x7fffff) + sqrt_half) - 1.0f;
  const float p = detail::polynomial(f, 0x1.555546p-2f, -0x1.ffffeep-3f, 0x1.99a55ap-3f, -0x1.5562fcp-3f,
                                     0x1.233108p-3f, -0x1.fb3d9ap-4f, 0x1.e6668cp-4f, -0x1.e31572p-4f, 0x1.1b43dcp-4f);
  const float f2 = f * f;
  const float tail = f2 * f * p - power * 0x1.bd0106p-13f - 0.5f * f2;
  const float result = power * 0x1.63p-1f + (f + tail);
  const float special = detail::select(detail::is_zero(x), -infinity, __builtin_nanf(""));
  const float large = detail::select(detail::below_infinity(x), result, x);
  return detail::select(x > 0.0f, large, special);
}
WEFT_HOST_DEVICE WEFT_INLINE double log(double x) {
  constexpr double infinity = __builtin_inf();
  constexpr std::uint64_t sqrt_half = 0x3fe6a09e667f3bcd;
  const bool denormal = x < 0x1p-1022;
  const double scaled = detail::select(denormal, x * 0x1p52, x);
  const std::uint64_t u = detail::bits(scaled) - sqrt_half + (std::uint64_t{1023} << 52);
  // 2^52 with an integer in its low bits equals 2^52 plus that integer: a conversion that needs no AVX-512.
  const double power =
      detail::as_double((u >> 52) | detail::bits(0x1p52)) - detail::select(denormal, 0x1p52 + 1075.0, 0x1p52 + 1023.0);
  const double f = detail::as_double((u & 0xfffffffffffff) + sqrt_half) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double r =
      z * detail::polynomial(z, 0x1.5555555555593p-1, 0x1.999999997f8a8p-2, 0x1.249249423e42fp-2, 0x1.c71c51c67f762p-3,
                             0x1.74664d71b8416p-3, 0x1.39a02f79bb77ep-3, 0x1.2f15b510a7a6ep-3);
  const double half_square = 0.5 * f * f;
  const double result =
      power * 0x1.62e42feep-1 - ((half_square - (s * (half_square + r) + power * 0x1.a39ef35793c76p-33)) - f);
  const double special = detail::select(detail::is_zero(x), -infinity, __builtin_nan(""));
  const double large = detail::select(detail::below_infinity(x), result, x);
  return detail::select(x > 0.0, large, special);
}

/// log(1 + x), accurate for small x.
WEFT_HOST_DEVICE WEFT_INLINE float log1p(float x) {
  const float u = detail::kept(1.0f + x);
  const float lost = x - detail::kept(u - 1.0f);
  const float result = log(u) + lost / u;
  return detail::select(u == 1.0f, x, detail::select((u > 0.0f) & detail::below_infinity(u), result, log(u)));
}
WEFT_HOST_DEVICE WEFT_INLINE double log1p(double x) {
  const double u = detail::kept(1.0 + x);
  const double lost = x - detail::kept(u - 1.0);
  const double result = log(u) + lost / u;
  return detail::select(u == 1.0, x, detail::select((u > 0.0) & detail::below_infinity(u), result, log(u)));
}

/// 1 / (1 + e^-x).
WEFT_HOST_DEVICE WEFT_INLINE float sigmoid(float x) {
  const float e = detail::exp_below(-abs(x));
  return detail::select(x < 0.0f, e, 1.0f) / (1.0f + e);
}
WEFT_HOST_DEVICE WEFT_INLINE double sigmoid(double x) {
  const double e = detail::exp_below(-abs(x));
  return detail::select(x < 0.0, e, 1.0) / (1.0 + e);
}

/// The hyperbolic tangent, from one exponential and one division.
WEFT_HOST_DEVICE WEFT_INLINE float tanh(float x) {
  // e^2x - 1 as in split_exp, by halves of its remainder. ln 2 in one part suffices, since tanh hardly changes where
  // the second part would matter. A clamped rational function would be cheaper, but its error is 8 ulp where tanh
  // saturates.
  const float a = abs(x);
  const float clamped = detail::at_most(10.0f, a);
  const float t = detail::kept(clamped * 0x1.715476p1f + (detail::round_float + 127));
  const float half = clamped - detail::kept(t - (detail::round_float + 127)) * 0x1.62e43p-2f;
  const float q =
      detail::polynomial(half, 0x1.fffffcp-1f, 0x1.55549p-1f, 0x1.5558f8p-2f, 0x1.123b02p-3f, 0x1.6a2256p-5f);
  const float scale = detail::as_float(detail::bits(t) << 23);
  const float e = (scale + scale) * (half + half * half * q) + detail::kept(scale - 1.0f);
  return __builtin_copysignf(e / (e + 2.0f), x);
}
WEFT_HOST_DEVICE WEFT_INLINE double tanh(double x) {
  const double a = 2.0 * abs(x);
  const double t = expm1(detail::at_most(44.0, a));
  return __builtin_copysign(t / (t + 2.0), x);
}

/// x^y; float goes through double, double through libm.
WEFT_HOST_DEVICE WEFT_INLINE float pow(float x, float y) {
  const double a = abs(static_cast<double>(x));
  const double e = static_cast<double>(y);
  const double magnitude = exp(e * log(a));
  const bool integer = floor(e) == e;
  const bool odd = integer & (floor(e * 0.5) != e * 0.5);
  const double result = detail::select(odd, __builtin_copysign(magnitude, static_cast<double>(x)), magnitude);
  const bool invalid = (x < 0.0f) & !integer & detail::below_infinity(a);
  const bool one = detail::either(
      detail::is_zero(y),
      detail::either(detail::is_equal(x, 1.0f),
                     detail::both(detail::is_equal(a, 1.0), detail::is_equal(abs(y), __builtin_inff()))));
  return static_cast<float>(detail::select(one, 1.0, detail::select(invalid, __builtin_nan(""), result)));
}
WEFT_HOST_DEVICE WEFT_INLINE double pow(double x, double y) { return __builtin_pow(x, y); }

}  // namespace weft::math

#endif

// ---- for CPUs and GPUs ----

WEFT_STRICT_BEGIN
namespace weft::math {

WEFT_HOST_DEVICE inline float select(bool condition, float a, float b) { return detail::select(condition, a, b); }
WEFT_HOST_DEVICE inline double select(bool condition, double a, double b) { return detail::select(condition, a, b); }
template <class T>
  requires std::is_integral_v<T>
WEFT_HOST_DEVICE T select(bool condition, T a, T b) {
  return condition ? a : b;
}
template <class T>
  requires std::is_integral_v<T>
WEFT_HOST_DEVICE T abs(T x) {
  return x < T(0) ? static_cast<T>(-wrapping(x)) : x;
}
template <class T>
  requires std::is_integral_v<T>
WEFT_HOST_DEVICE T maximum(T a, T b) {
  return a > b ? a : b;
}
template <class T>
  requires std::is_integral_v<T>
WEFT_HOST_DEVICE T minimum(T a, T b) {
  return a < b ? a : b;
}
/// Returns the sign of x; zero and NaN are returned unchanged.
template <class T>
  requires std::is_arithmetic_v<T>
WEFT_HOST_DEVICE T sign(T x) {
  if constexpr (std::is_integral_v<T>)
    return select(x > T(0), T(1), select(x < T(0), static_cast<T>(-1), x));
  else
    return select(detail::is_above(x, T(0)), T(1), select(detail::is_above(T(0), x), T(-1), x));
}

/// 1 / sqrt(x).
WEFT_HOST_DEVICE inline float rsqrt(float x) { return 1.0f / sqrt(x); }
WEFT_HOST_DEVICE inline double rsqrt(double x) { return 1.0 / sqrt(x); }

/// x * y, and 0 if y is 0, for any x.
WEFT_HOST_DEVICE inline float multiply_no_nan(float x, float y) { return select(detail::is_zero(y), 0.0f, x * y); }
WEFT_HOST_DEVICE inline double multiply_no_nan(double x, double y) { return select(detail::is_zero(y), 0.0, x * y); }
/// x / y, and 0 if x is 0, for any y.
WEFT_HOST_DEVICE inline float xdivy(float x, float y) { return select(detail::is_zero(x), 0.0f, x / y); }
WEFT_HOST_DEVICE inline double xdivy(double x, double y) { return select(detail::is_zero(x), 0.0, x / y); }

/// True if V, a floating-point type, has numbers outside the range of the integer type To.
template <class V, class To>
inline constexpr bool exceeds = is_differentiable<V> && std::is_integral_v<To> && !std::is_same_v<To, bool>;

/// Truncates x towards zero. Numbers outside the range of To become its nearest number, and NaN becomes 0.
template <class To, class V>
WEFT_HOST_DEVICE WEFT_INLINE constexpr To nearest_integer(V x) {
  constexpr To least = std::is_signed_v<To> ? static_cast<To>(To(1) << (8 * sizeof(To) - 1)) : To(0);
  constexpr To most = static_cast<To>(~least);
  constexpr V limit = static_cast<V>(most / 2 + 1) * V(2);  // the first number beyond the range, a power of two
  constexpr V last = limit - limit * (sizeof(V) == 4 ? V(0x1p-24) : V(0x1p-53));
  const V below = x < limit ? x : last;
  const To inside = static_cast<To>(below > static_cast<V>(least) ? below : static_cast<V>(least));
#if __FINITE_MATH_ONLY__
  using word = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
  const bool is_number = __builtin_bit_cast(word, x) << 1 <= __builtin_bit_cast(word, V(__builtin_inf())) << 1;
#else
  const bool is_number = x == x;
#endif
  return !is_number ? To(0) : x >= limit ? most : inside;
}

/// e^(-x^2). 2 ulp: corrects for the rounding of x^2.
WEFT_HOST_DEVICE WEFT_INLINE float exp_of_minus_square(float x) {
#if defined(__CUDA_ARCH__)
  const float a = ::fabsf(x) > 11.0f ? 11.0f : x;
  const float square = __fmul_rn(a, a), lost = ::fmaf(a, a, -square);
#else
  // The upper half of the digits has an exact square. e^-121 is 0.
  const float a = detail::at_most(11.0f, abs(x));
  const float high = detail::as_float(detail::bits(a) & 0xfffff000u), low = detail::kept(a - high);
  const float square = detail::kept(a * a);
  const float lost = detail::kept(high * high - square) + low * (a + high);
#endif
  const float e = exp(-square);
  return e - e * lost;
}
WEFT_HOST_DEVICE WEFT_INLINE double exp_of_minus_square(double x) {
#if defined(__CUDA_ARCH__)
  const double a = ::fabs(x) > 28.0 ? 28.0 : x;
  const double square = __dmul_rn(a, a), lost = ::fma(a, a, -square);
#else
  const double a = detail::at_most(28.0, abs(x));
  const double high = detail::as_double(detail::bits(a) & 0xfffffffff8000000u), low = detail::kept(a - high);
  const double square = detail::kept(a * a);
  const double lost = detail::kept(high * high - square) + low * (a + high);
#endif
  const double e = exp(-square);
  return e - e * lost;
}

/// The error function: 2 / sqrt(pi) times the integral of e^-t^2 from 0 to x. 1.5 ulp.
WEFT_HOST_DEVICE WEFT_INLINE float erf(float x) {
#if defined(__CUDA_ARCH__)
  return ::erff(x);
#else
  // x + x p(x^2) near 0, and 1 - e^-p(x) elsewhere, where the rounding of the exponent is small compared with 1.
  const float a = detail::at_most(4.0f, abs(x));
  const float s = a * a;
  const float near = x + x * detail::polynomial(s, 0x1.06eba8p-3f, -0x1.812742p-2f, 0x1.ce2e0ap-4f, -0x1.b80e94p-6f,
                                                0x1.54c812p-8f, -0x1.aa402ep-11f, 0x1.5cd7eap-14f);
  const float p = detail::polynomial(a, -0x1.6ea122p-13f, 0x1.2127f0p+0f, 0x1.4445e0p-1f, 0x1.bb856cp-4f,
                                     -0x1.9b926cp-6f, 0x1.1160c6p-8f, -0x1.c7a4f6p-12f, 0x1.62064cp-16f);
  return detail::select(a > 0.9275f, __builtin_copysignf(1.0f - exp(-p), x), near);
#endif
}
WEFT_HOST_DEVICE WEFT_INLINE double erf(double x) {
#if defined(__CUDA_ARCH__)
  return ::erf(x);
#else
  const double a = detail::at_most(6.0, abs(x));
  const double s = a * a;
  const double near = x + x * detail::polynomial(s, 0x1.06eba8214db68p-3, -0x1.812746b0379bdp-2, 0x1.ce2f21a040d51p-4,
                                                 -0x1.b82ce311fb837p-6, 0x1.565bccf94a17dp-8, -0x1.c02db04276d50p-11,
                                                 0x1.f9a2bb16e9451p-14, -0x1.f4ca53f797982p-17, 0x1.b9801387edca7p-20,
                                                 -0x1.5c08a799354d4p-23, 0x1.d7254cc40c8b1p-27, -0x1.abcc6257a00b0p-31);
  const double p =
      detail::polynomial(a, 0x1.801192c88b919p-23, 0x1.20dd564ddda56p+0, 0x1.45f42a4886cb6p-1, 0x1.a4da6428b49a7p-4,
                         -0x1.38943ceaef445p-6, -0x1.25e46bc62b28bp-12, 0x1.cfad0c47c6f32p-10, -0x1.50117db6f44f6p-11,
                         0x1.7716b14ee3c29p-15, 0x1.275d0febab4a7p-14, -0x1.79f9c7ec54a1cp-15, 0x1.152a30ee58df6p-16,
                         -0x1.227c043e21d26p-18, 0x1.c8cbb809116b4p-21, -0x1.0e073883b256cp-23, 0x1.d4541f95ae278p-27,
                         -0x1.19ffe18576423p-30, 0x1.a5ebe77f6af6bp-35, -0x1.27754adc09b32p-40);
  return detail::select(a > 1.0, __builtin_copysign(1.0 - exp(-p), x), near);
#endif
}

#if !defined(__CUDA_ARCH__)
namespace detail {

// sin(x + quarters * pi / 2), in double. 2 / pi is split into pieces. The products with the first five are exact, and
// after each sum its nearest integer, a number of quarter turns, is subtracted. The remainder is therefore exact for
// any x. Products that are multiples of four quarter turns are skipped.
WEFT_INLINE float sine(float x, std::uint64_t quarters) {
  const double v = x, a = abs(v);
  double rest = -0.0;  // preserves -0
  const auto add = [&](double part, double piece) {
    const double turned = kept(part * piece + rest);
    const double t = kept(turned + round_double);
    quarters += bits(t);
    rest = kept(turned - kept(t - round_double));
  };
  add(select(a < 0x1p51, v, 0.0), 0x1.45f3068p-1);
  add(select(a < 0x1p77, v, 0.0), 0x1.7272208p-27);
  add(select(a < 0x1p103, v, 0.0), 0x1.4a7f09p-54);
  add(v, 0x1.abe8fa8p-79);
  add(v, 0x1.a6ee06p-107);
  add(v, 0x1.b6295993c439p-132);
  const double s = rest * rest;
  const double sine =
      rest * polynomial(s, 0x1.921fb52e6d6b2p+0, -0x1.4abbb902a10e8p-1, 0x1.465e92d2749d6p-4, -0x1.2d932a880f738p-8);
  const double cosine = polynomial(s, 0x1.ffffffff8496bp-1, -0x1.3bd3cc6e7bde3p+0, 0x1.03c1daadbfec5p-2,
                                   -0x1.55c4ea5a198edp-6, 0x1.d99f87c11646fp-11);
  const std::uint64_t odd = std::uint64_t{0} - (quarters & 1);
  const std::uint64_t chosen = (bits(cosine) & odd) | (bits(sine) & ~odd);
  return static_cast<float>(as_double(chosen ^ (quarters & 2) << 62));
}

}  // namespace detail
#endif

/// The sine of numbers of any size. 0.6 ulp; libm's for double.
WEFT_HOST_DEVICE WEFT_INLINE float sin(float x) {
#if defined(__CUDA_ARCH__)
  return ::sinf(x);
#else
  return detail::sine(x, 0);
#endif
}
WEFT_HOST_DEVICE WEFT_INLINE double sin(double x) {
#if defined(__CUDA_ARCH__)
  return ::sin(x);
#else
  return __builtin_sin(x);
#endif
}

/// The cosine; see sin.
WEFT_HOST_DEVICE WEFT_INLINE float cos(float x) {
#if defined(__CUDA_ARCH__)
  return ::cosf(x);
#else
  return detail::sine(x, 1);
#endif
}
WEFT_HOST_DEVICE WEFT_INLINE double cos(double x) {
#if defined(__CUDA_ARCH__)
  return ::cos(x);
#else
  return __builtin_cos(x);
#endif
}

}  // namespace weft::math
WEFT_STRICT_END

#if !defined(__CUDA_ARCH__) && defined(__clang__)
  #pragma float_control(pop)
#endif
