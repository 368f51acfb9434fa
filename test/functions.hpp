// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <weft/ops/elementwise/activations.hpp>
#include <weft/ops/elementwise/rounding.hpp>
#include <weft/ops/elementwise/special.hpp>
#include <weft/ops/elementwise/trigonometry.hpp>
#include <weft/weft.hpp>

/// The reference for each function of one operand in the list of ops/elementwise/formulas.hpp, and for those of the
/// other headers in ops/elementwise. A function of the list without a row here does not compile, in the tests of its
/// values for each instruction set (device/math_test.cpp), of its errors (oracle/accuracy.cpp), of its gradients
/// (ops/elementwise_gradients.cpp) and of its kernels for GPUs (gpu/maps_test.cpp, gpu/gradients_test.cpp).
namespace functions {

using real = long double;

struct derived {
  real gradient, magnitude;  // the units are of the magnitude; 0: of the gradient itself
};

struct row {
  real (*value)(real x);
  derived (*gradient)(real x, real g);
  double ulp, gradient_ulp, ulp_in_double;  // that are allowed; none: not measured
  double low, high;                         // the gradient is smooth there
  int order;                                // how many orders of gradients are compared with differences
  real (*magnitude)(real x) = nullptr;      // the units of the value are of it; null: of the value itself
};

using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atanh, std::ceil, std::erfc, std::exp2, std::lgamma,
    std::log10, std::log2, std::sinh, std::tan, std::trunc;
using std::cos, std::cosh, std::erf, std::exp, std::expm1, std::floor, std::log, std::log1p, std::sin, std::sqrt,
    std::tanh;
inline real abs(real x) { return std::abs(x); }
inline real sign(real x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
inline real relu(real x) { return x != x || x > 0 ? x : 0; }
inline real sigma(real x) { return 1 / (1 + exp(-x)); }
/// e^(-x^2) of a float or a double: the square of its leading digits is exact.
inline real exp_of_minus_square(real x) {
  const real high = std::isfinite(x) && std::abs(x) < 1e3L ? real(static_cast<float>(x)) : x;
  return high == x ? exp(-x * x) : exp(-high * high) * exp(-(x - high) * (x + high));
}
inline real bell(real x) { return 1.128379167095512573896159L * exp_of_minus_square(x); }
inline real softplus(real x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
inline real square(real x) { return x * x; }
inline real clip6(real x) { return x > 6 ? 6 : relu(x); }
inline real elu(real x) { return x < 0 ? expm1(x) : x; }
constexpr real selu_scale = 1.05070098735548049342L, selu_alpha = 1.67326324235437728481L;
inline real selu(real x) { return selu_scale * (x < 0 ? selu_alpha * expm1(x) : x); }
inline real selu_slope(real x) { return selu_scale * (x < 0 ? selu_alpha * exp(x) : 1); }
inline real phi(real x) { return std::erfc(-x / sqrt(real(2))) / 2; }
inline real gelu_slope(real x) { return phi(x) + x * 0.398942280401432677939946L * exp(-x * x / 2); }
inline real curve(real x) { return 1.595769121605730711759785L * x * (1 + 0.044715L * x * x); }
inline real gelu_tanh_slope(real x) {
  const real s = sigma(curve(x));
  return s + x * s * sigma(-curve(x)) * 1.595769121605730711759785L * (1 + 3 * 0.044715L * x * x);
}
inline real silu_slope(real x) { return sigma(x) * (1 + x * sigma(-x)); }
inline real hard_swish_slope(real x, real g) { return x <= -3 ? 0 : x < 3 ? g * (x + 1.5L) / 3 : g; }
inline real magnitude(real x) { return x; }
inline real one(real) { return 1; }
inline real cube(real x) { return x * x * x; }
constexpr real pi = 3.141592653589793238462643L, ln2 = 0.693147180559945309417232L, ln10 = 2.302585092994045684017991L;
inline real root(real a, real b) { return sqrt(a * b); }
inline real round(real x) { return std::nearbyint(x); }
inline real mish(real x) { return x * tanh(softplus(x)); }
inline real mish_slope(real x) {
  const real t = tanh(softplus(x));
  return x > 50 ? 1 : t + x * (1 - t * t) * sigma(x);
}
/// sin(pi x) / (pi x): a half turn less for each integer.
inline real sinc(real x) {
  const real a = std::abs(x), whole = floor(a), part = a - whole, near = part > 0.5L ? 1 - part : part;
  return x == 0 ? 1 : (std::fmod(whole, 2) == 0 ? 1 : -1) * sin(pi * near) / (pi * a);
}
inline real sinc_slope(real x) {
  const real t = pi * x, s = t * t;
  return std::abs(x) < 1e-4L ? -pi * t * (1 / 3.0L - s * (1 / 30.0L - s / 840)) : (cos(t) - sinc(x)) / x;
}
/// By Halley's method from the middle of the range, with the smaller one of erf and erfc.
inline real erfinv(real x) {
  constexpr real slope = 0.886226925452758013649083741670572591L;
  const real a = abs(x);
  if (!(a < 1)) return a == 1 ? x * std::numeric_limits<real>::infinity() : std::nanl("");
  real y = a < 0.5L ? a * slope : sqrt(-log(1 - a));
  for (int step = 0; step < 12; ++step) {
    const real d = (a < 0.5L ? erf(y) - a : 1 - a - erfc(y)) * slope * exp(y * y);
    y -= d / (1 + y * d);
  }
  return std::copysign(y, x);
}
inline real digamma(real x) {
  if (x < 0) return x == floor(x) ? std::nanl("") : digamma(1 - x) - pi / tan(pi * (x - round(x)));
  if (x == 0) return -1 / x;
  real y = 0;
  for (; x < 40; ++x) y -= 1 / x;
  const real s = 1 / (x * x);
  return y + log(x) - 1 / (2 * x) - s * (1 / 12.0L - s * (1 / 120.0L - s * (1 / 252.0L - s * (1 / 240.0L - s / 132))));
}
inline real trigamma(real x) {
  if (x < 0) return square(pi / sin(pi * (x - round(x)))) - trigamma(1 - x);
  real y = 0;
  for (; x < 40; ++x) y += 1 / (x * x);
  const real s = 1 / (x * x);
  return y + 1 / x + s / 2 + s / x * (1 / 6.0L - s * (1 / 30.0L - s * (1 / 42.0L - s * (1 / 30.0L - s * 5 / 66))));
}
inline real one_or_digamma(real x) { return std::max(real(1), abs(digamma(x))); }
inline real one_or_lgamma(real x) { return std::max(real(1), abs(lgamma(x))); }
constexpr double none = -1;

template <class Formula>
struct row_is_missing;
template <class Formula>
inline constexpr row_is_missing<Formula> expected{};

#define WEFT_ROW(name, value, gradient, magnitude, ...)  \
  template <>                                            \
  inline constexpr row expected<weft::formula::name> = { \
      [](real x) { return real(value); },                \
      []([[maybe_unused]] real x, [[maybe_unused]] real g) { return derived{gradient, magnitude}; }, __VA_ARGS__};

// clang-format off
// Name, value, gradient where g arrives, its magnitude; ulp of value and gradient in float, and of value in double;
// where the gradient is smooth, and how many orders of it are compared.
WEFT_ROW(abs,      abs(x),      sign(x) * g,              0,                         0,    0,   none, -2,  2,   2)
WEFT_ROW(sign,     sign(x),     0,                        0,                         0,    0,   none, -2,  2,   2)
WEFT_ROW(floor,    floor(x),    0,                        0,                         0,    0,   none, 0.1, 0.9, 2)
WEFT_ROW(sqrt,     sqrt(x),     g / (2 * sqrt(x)),        0,                         1,    3,   1,    0.5, 2,   3)
WEFT_ROW(exp,      exp(x),      g * exp(x),               0,                         2,    3,   2,    -2,  2,   3)
WEFT_ROW(log,      log(x),      g / x,                    0,                         1.5,  1,   1.5,  0.5, 2,   3)
WEFT_ROW(log1p,    log1p(x),    g / (1 + x),              0,                         2,    1.5, 2,    -0.5, 2,  3)
WEFT_ROW(expm1,    expm1(x),    g * exp(x),               0,                         2,    3,   2,    -2,  2,   3)
WEFT_ROW(tanh,     tanh(x),     g / (cosh(x) * cosh(x)),  g,                         4,    6,   4,    -2,  2,   3)
WEFT_ROW(sigmoid,  sigma(x),    g * sigma(x) * sigma(-x), g * sigma(x),              4,    6,   3.5,  -2,  2,   3)
WEFT_ROW(erf,      erf(x),      g * bell(x),              0,                         2.5,  5,   2.5,  -2,  2,   3)
WEFT_ROW(sin,      sin(x),      g * cos(x),               0,                         1.25, 2.5, 1.25, -2,  2,   3)
WEFT_ROW(cos,      cos(x),      -g * sin(x),              0,                         1.25, 2.5, 1.25, -2,  2,   3)
WEFT_ROW(square,   x * x,       2 * g * x,                0,                         1,    1,   none, -2,  2,   3)
WEFT_ROW(relu,     relu(x),     x > 0 ? g : 0,            0,                         0,    0,   none, -2,  2,   2)
WEFT_ROW(softplus, softplus(x), g * sigma(x),             0,                         3,    5,   3.5,  -2,  2,   3)
WEFT_ROW(rsqrt,    1 / sqrt(x), -g / 2 / cube(sqrt(x)),   0,                         3,    7,   3,    0.5, 2,   3)
WEFT_ROW(relu6,    clip6(x),    x > 0 && x < 6 ? g : 0,   0,                         0,    0,   none, 0.5, 5,   2)
WEFT_ROW(elu,      elu(x),      x < 0 ? g * exp(x) : g,   0,                         2.5,  3,   2.5,  -2,  2,   2)
WEFT_ROW(selu,     selu(x),     g * selu_slope(x),        0,                         3,    4,   4,    -2,  2,   2)
WEFT_ROW(gelu,     x * phi(x),  g * gelu_slope(x),        g,                         3,    5,   none, -2,  2,   3, magnitude)
WEFT_ROW(gelu_tanh, x * sigma(curve(x)), g * gelu_tanh_slope(x), g,                  4,    7,   none, -2,  2,   3, magnitude)
WEFT_ROW(silu,     x * sigma(x), g * silu_slope(x),       g,                         5,    30,  none, -2,  2,   3, magnitude)
WEFT_ROW(softsign, x / (1 + abs(x)), g / square(1 + abs(x)), 0,                      2,    5,   2,    -2,  2,   2)
WEFT_ROW(hard_sigmoid, clip6(x + 3) / 6, x > -3 && x < 3 ? g / 6 : 0, 0,             2,    1,   none, -2,  2,   2, one)
WEFT_ROW(hard_swish, x * clip6(x + 3) / 6, hard_swish_slope(x, g), g,                3,    5,   none, -2,  2,   2, magnitude)

// Of other headers.
WEFT_ROW(tan,      tan(x),      g * (1 + square(tan(x))), 0,                         4,   8,   1.25, -1,   1,   3)
WEFT_ROW(asin,     asin(x),     g / root(1 - x, 1 + x),   0,                         4,   5,   4,    -0.9, 0.9, 3)
WEFT_ROW(acos,     acos(x),     -g / root(1 - x, 1 + x),  0,                         2,   5,   2,    -0.9, 0.9, 3)
WEFT_ROW(atan,     atan(x),     g / (1 + x * x),          0,                         3,   4,   3,    -2,   2,   3)
WEFT_ROW(sinh,     sinh(x),     g * cosh(x),              0,                         3.5, 4,   3.5,  -2,   2,   3)
WEFT_ROW(cosh,     cosh(x),     g * sinh(x),              0,                         3,   4.5, 3,    -2,   2,   3)
WEFT_ROW(asinh,    asinh(x),    g / sqrt(1 + x * x),      0,                         3.5, 4,   3.5,  -2,   2,   3)
WEFT_ROW(acosh,    acosh(x),    g / root(x - 1, x + 1),   0,                         3.5, 4.5, 4,    1.2,  3,   3)
WEFT_ROW(atanh,    atanh(x),    g / ((1 - x) * (1 + x)),  0,                         3.5, 4.5, 3.5,  -0.9, 0.9, 3)
WEFT_ROW(erfc,     erfc(x),     -g * bell(x),             0,                         8.5, 6.5, 10,   -2,   2,   3)
WEFT_ROW(erfinv,   erfinv(x),   g / bell(erfinv(x)),      0,                         1,   25,  2.5,  -0.9, 0.9, 3)
WEFT_ROW(digamma,  digamma(x),  g * trigamma(x),          0,                         1,   3,   none, 0.5,  3,   1, one_or_digamma)
WEFT_ROW(lgamma,   lgamma(x),   g * digamma(x),           g * one_or_digamma(x),     1,   3,   none, 0.5,  3,   2, one_or_lgamma)
WEFT_ROW(exp2,     exp2(x),     g * ln2 * exp2(x),        0,                         2,   4.5, 2,    -2,   2,   3)
WEFT_ROW(log2,     log2(x),     g / x / ln2,              0,                         1,   3,   1,    0.5,  2,   3)
WEFT_ROW(log10,    log10(x),    g / x / ln10,             0,                         1,   3.5, 3,    0.5,  2,   3)
WEFT_ROW(sinc,     sinc(x),     g * sinc_slope(x),        g,                         4.5, 11,  4.5,  -2,   2,   3)
WEFT_ROW(ceil,     ceil(x),     0,                        0,                         0,    0,   0,    0.1, 0.9, 2)
WEFT_ROW(round,    round(x),    0,                        0,                         0,    0,   0,    0.6, 1.4, 2)
WEFT_ROW(trunc,    trunc(x),    0,                        0,                         0,    0,   0,    0.1, 0.9, 2)
WEFT_ROW(mish,     mish(x),     g * mish_slope(x),        g,                         3,   5,   none, -2,   2,   3, magnitude)
WEFT_ROW(log_sigmoid, -softplus(-x), g * sigma(-x),       0,                         3.5, 5,   3.5,  -2,   2,   3)
// clang-format on
#undef WEFT_ROW

/// Calls visit(Formula(), row) for each function of the list.
template <class Visit>
void each_of_the_list(Visit visit) {
#define WEFT_VISIT_1(name) visit(weft::formula::name(), expected<weft::formula::name>);
#define WEFT_VISIT_2(name)
#define WEFT_VISIT(name, operands) WEFT_VISIT_##operands(name)
  WEFT_FORMULAS(WEFT_NO_ROW, WEFT_VISIT, WEFT_VISIT)
#undef WEFT_VISIT
#undef WEFT_VISIT_1
#undef WEFT_VISIT_2
}

/// Calls visit(Formula(), row) for each function of one operand.
template <class Visit>
void each(Visit visit) {
  namespace f = weft::formula;
  each_of_the_list(visit);
  [&]<class... F>(F... op) { (visit(op, expected<F>), ...); }(
      f::tan(), f::asin(), f::acos(), f::atan(), f::sinh(), f::cosh(), f::asinh(), f::acosh(), f::atanh(), f::erfc(),
      f::erfinv(), f::digamma(), f::lgamma(), f::exp2(), f::log2(), f::log10(), f::sinc(), f::ceil(), f::round(),
      f::trunc(), f::mish(), f::log_sigmoid());
}

}  // namespace functions
