#pragma once

#include <cmath>
#include <weft/weft.hpp>

/// What is right for each function of one operand in the list of ops/formulas.hpp. A function without a row here does not
/// compile, in the tests of its values for each instruction set (device/math_test.cpp), of its errors
/// (oracle/accuracy.cpp), of its gradients (ops/elementwise_gradients.cpp) and of its kernels for GPUs (gpu/maps_test.cpp,
/// gpu/gradients_test.cpp).
namespace functions {

using real = long double;

struct derived {
  real gradient, magnitude;  // the units are of the magnitude; 0: of the gradient itself
};

/// The value, the gradient where g arrives, and the units in the last place that are allowed: of the value and of the
/// gradient in float, and of the value in double (none: not looked at). `low` to `high` is where the gradient is smooth.
struct row {
  real (*value)(real x);
  derived (*gradient)(real x, real g);
  double ulp, gradient_ulp, ulp_in_double;
  double low, high;
  int order = 2;  // of the gradients that are compared with differences
};

inline real logistic(real x) { return 1 / (1 + std::exp(-x)); }
constexpr double none = -1;

template <class Formula>
struct row_is_missing;
template <class Formula>
inline constexpr row_is_missing<Formula> expected{};

#define WEFT_ROW(name, ...) \
  template <>               \
  inline constexpr row expected<weft::formula::name> = {__VA_ARGS__};

WEFT_ROW(
    abs, [](real x) { return std::abs(x); },
    [](real x, real g) {
      return derived{x != x ? x : x == 0 ? 0 : std::copysign(g, g * x), 0};
    },
    0, 0, none, -2, 2)
WEFT_ROW(
    sign, [](real x) { return x > 0 ? real(1) : x < 0 ? real(-1) : x; }, [](real, real) { return derived{0, 0}; }, 0, 0,
    none, -2, 2)
WEFT_ROW(
    floor, [](real x) { return std::floor(x); }, [](real, real) { return derived{0, 0}; }, 0, 0, none, 0.1, 0.9)
WEFT_ROW(
    sqrt, [](real x) { return std::sqrt(x); }, [](real x, real g) { return derived{g / (2 * std::sqrt(x)), 0}; }, 1, 3,
    1, 0.5, 2, 3)
WEFT_ROW(
    exp, [](real x) { return std::exp(x); }, [](real x, real g) { return derived{g * std::exp(x), 0}; }, 2, 3, 2, -2, 2,
    3)
WEFT_ROW(
    log, [](real x) { return std::log(x); }, [](real x, real g) { return derived{g / x, 0}; }, 1.5, 1, 1.5, 0.5, 2, 3)
WEFT_ROW(
    tanh, [](real x) { return std::tanh(x); },
    [](real x, real g) {
      return derived{g / (std::cosh(x) * std::cosh(x)), g};
    },
    4, 6, 4, -2, 2, 3)
WEFT_ROW(
    sigmoid, logistic,
    [](real x, real g) {
      return derived{g * logistic(x) * logistic(-x), g * logistic(x)};
    },
    4, 6, 3.5, -2, 2, 3)
WEFT_ROW(
    erf, [](real x) { return std::erf(x); },
    [](real x, real g) {
      const real d = 1.128379167095512573896159L * g * std::exp(-x * x);
      return derived{d, d * (1 + x * x)};  // x^2 is rounded before it is an exponent
    },
    2.5, 4, 2.5, -2, 2, 3)
WEFT_ROW(
    sin, [](real x) { return std::sin(x); }, [](real x, real g) { return derived{g * std::cos(x), 0}; }, 1.25, 2.5, 1.25,
    -2, 2, 3)
WEFT_ROW(
    cos, [](real x) { return std::cos(x); }, [](real x, real g) { return derived{-g * std::sin(x), 0}; }, 1.25, 2.5,
    1.25, -2, 2, 3)
WEFT_ROW(
    square, [](real x) { return x * x; }, [](real x, real g) { return derived{2 * g * x, 0}; }, 1, 1, none, -2, 2, 3)
WEFT_ROW(
    relu, [](real x) { return x != x || x > 0 ? x : real(0); }, [](real x, real g) { return derived{x > 0 ? g : 0, 0}; },
    0, 0, none, -2, 2)
WEFT_ROW(
    softplus, [](real x) { return x != x ? x : std::fmax(x, real(0)) + std::log1p(std::exp(-std::abs(x))); },
    [](real x, real g) { return derived{g * logistic(x), 0}; }, 5, 5, 5, -2, 2, 3)
#undef WEFT_ROW

/// Calls visit.operator()<Formula>(row) for each function of one operand.
template <class Visit>
void each(Visit visit) {
#define WEFT_VISIT_1(name) visit.template operator()<weft::formula::name>(expected<weft::formula::name>);
#define WEFT_VISIT_2(name)
#define WEFT_VISIT(name, operands) WEFT_VISIT_##operands(name)
  WEFT_FORMULAS(WEFT_NO_ROW, WEFT_VISIT, WEFT_VISIT)
#undef WEFT_VISIT
#undef WEFT_VISIT_1
#undef WEFT_VISIT_2
}

}  // namespace functions
