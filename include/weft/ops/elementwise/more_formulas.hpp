// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <weft/device/cpu/special_functions.hpp>
#include <weft/ops/elementwise/formulas.hpp>

/// The formulas of the elementwise functions outside of the list in ops/elementwise/formulas.hpp, whose rows every
/// program reads: those of activations.hpp, bits.hpp, predicates.hpp, rounding.hpp, special.hpp and trigonometry.hpp,
/// which document them. Frozen models need no more of these headers than this one.
namespace weft {

namespace detail {

template <class... Op>
struct formula_list;

/// Applies a formula to symbols (ops/elementwise/define.hpp).
template <class Op, class... X>
WEFT_HOST_DEVICE symbol call_formula(X... x);

template <class V>
inline constexpr bool is_dependence = std::is_same_v<V, dependence>;

/// Returns the dependences of a value that a formula computes from two others.
template <class V>
  requires is_dependence<V>
WEFT_HOST_DEVICE constexpr V joined(V a, V b) {
  return V(a.mask | b.mask, a.by | b.by);
}

}  // namespace detail

/// Let formulas apply `math::op`, a function of float and double, to symbols; formula::op follows.
#define WEFT_SYMBOLS_1(op)                             \
  namespace formula {                                  \
  struct op;                                           \
  }                                                    \
  namespace math {                                     \
  template <std::same_as<symbol> V>                    \
  WEFT_HOST_DEVICE V op(V x) {                         \
    return weft::detail::call_formula<formula::op>(x); \
  }                                                    \
  template <std::same_as<dependence> V>                \
  WEFT_HOST_DEVICE constexpr V op(V x) {               \
    return x;                                          \
  }                                                    \
  }
#define WEFT_SYMBOLS_2(op)                                \
  namespace formula {                                     \
  struct op;                                              \
  }                                                       \
  namespace math {                                        \
  template <std::same_as<symbol> V>                       \
  WEFT_HOST_DEVICE V op(V a, V b) {                       \
    return weft::detail::call_formula<formula::op>(a, b); \
  }                                                       \
  template <std::same_as<dependence> V>                   \
  WEFT_HOST_DEVICE constexpr V op(V a, V b) {             \
    return weft::detail::joined(a, b);                    \
  }                                                       \
  }
WEFT_SYMBOLS_1(ceil)
WEFT_SYMBOLS_1(round)
WEFT_SYMBOLS_1(trunc)
WEFT_SYMBOLS_2(floor_div)
WEFT_SYMBOLS_2(floor_mod)
WEFT_SYMBOLS_2(fmod)
WEFT_SYMBOLS_1(trigamma)
WEFT_SYMBOLS_1(erfc)
WEFT_SYMBOLS_1(erfinv)
WEFT_SYMBOLS_1(digamma)
WEFT_SYMBOLS_1(lgamma)
WEFT_SYMBOLS_1(exp2)
WEFT_SYMBOLS_1(log2)
WEFT_SYMBOLS_1(log10)
WEFT_SYMBOLS_1(sinc)
WEFT_SYMBOLS_2(hypot)
WEFT_SYMBOLS_1(tan)
WEFT_SYMBOLS_1(asin)
WEFT_SYMBOLS_1(acos)
WEFT_SYMBOLS_1(atan)
WEFT_SYMBOLS_1(sinh)
WEFT_SYMBOLS_1(cosh)
WEFT_SYMBOLS_1(asinh)
WEFT_SYMBOLS_1(acosh)
WEFT_SYMBOLS_1(atanh)
WEFT_SYMBOLS_2(atan2)
#undef WEFT_SYMBOLS_1
#undef WEFT_SYMBOLS_2

namespace math {

template <class T>
  requires std::is_integral_v<T>
WEFT_HOST_DEVICE T fmod(T a, T b) {
  return static_cast<T>(wrapping(a) - wrapping(formula::divide::apply(a, b)) * wrapping(b));
}
template <class T>
  requires std::is_integral_v<T>
WEFT_HOST_DEVICE T floor_mod(T a, T b) {
  const T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
template <class T>
  requires std::is_integral_v<T>
WEFT_HOST_DEVICE T floor_div(T a, T b) {
  const T q = formula::divide::apply(a, b), r = static_cast<T>(wrapping(a) - wrapping(q) * wrapping(b));
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(q - 1) : q;
}
template <class V>
WEFT_HOST_DEVICE constexpr V logaddexp(V a, V b) {
  const V distance = select(a == b, V(0), abs(a - b));  // also of equal infinities
  return maximum(a, b) + log1p(exp(-distance));
}
template <class V>
WEFT_HOST_DEVICE constexpr V xlogy(V x, V y) {
  return select(y == y, multiply_no_nan(log(y), x), y);
}
template <class V>
WEFT_HOST_DEVICE constexpr V heaviside(V a, V b) {
  return select(a > V(0), V(1), select(a < V(0), V(0), select(a == V(0), b, a)));
}
template <class T>
WEFT_HOST_DEVICE constexpr T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
WEFT_HOST_DEVICE constexpr T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
WEFT_HOST_DEVICE constexpr T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
WEFT_HOST_DEVICE constexpr T shift_left(T a, T by) {
  constexpr T last = 8 * sizeof(T) - 1;
  return by < T(0) || by > last ? T(0) : static_cast<T>(static_cast<std::uint64_t>(a) << by);
}
template <class T>
WEFT_HOST_DEVICE constexpr T shift_right(T a, T by) {
  constexpr T last = 8 * sizeof(T) - 1;
  return by < T(0) || by > last ? static_cast<T>(a < T(0) ? -1 : 0) : static_cast<T>(a >> by);
}
/// Adds neighbouring bits, then neighbouring sums.
template <class T>
WEFT_HOST_DEVICE constexpr T popcount(T x) {
  auto n = static_cast<std::make_unsigned_t<T>>(x) + std::uint64_t{0};
  n -= (n >> 1) & 0x5555555555555555u;
  n = (n & 0x3333333333333333u) + ((n >> 2) & 0x3333333333333333u);
  n = (n + (n >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<T>((n * 0x0101010101010101u) >> 56);
}
template <class T>
WEFT_HOST_DEVICE constexpr T bit_not(T x) {
  if constexpr (std::is_same_v<T, bool>)
    return !x;
  else
    return static_cast<T>(~x);
}

}  // namespace math
}  // namespace weft

WEFT_STRICT_BEGIN
namespace weft {
namespace formula {

/// tanh(softplus(x)) = n / (n + 2) with n = e^x (e^x + 2), and the derivative of mish. The quotient rounds to 1 at 20.
template <class V>
WEFT_HOST_DEVICE constexpr V mish_gate(V x) {
  const V e = math::exp(math::minimum(x, V(20))), n = e * (e + V(2));
  return n / (n + V(2));
}
template <class V>
WEFT_HOST_DEVICE constexpr V mish_slope(V x) {
  const V least = math::minimum(x, V(20)), e = math::exp(least), d = e * (e + V(2)) + V(2);
  return mish_gate(x) + least * (V(4) * e / d) * ((e + V(1)) / d);
}

}  // namespace formula

namespace math {

template <class V>
WEFT_HOST_DEVICE constexpr V mish(V x) {
  return x * formula::mish_gate(x);
}
template <class V>
WEFT_HOST_DEVICE constexpr V log_sigmoid(V x) {
  return -(maximum(-x, V(0)) + log1p(exp(-abs(x))));
}

}  // namespace math

namespace formula {

struct trigamma {
  static constexpr const char* name = "trigamma";
  static constexpr bool cheap = false, floating_only = true, not_differentiable = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::trigamma(x);
  }
};

/// The derivative of y = sinc(x), by its series near 0, where the terms of the quotient cancel.
template <class V>
WEFT_HOST_DEVICE constexpr V sinc_slope(V x, V y) {
  const auto near = math::abs(x) < V(0.25);
  const V t = V(3.141592653589793) * math::select(near, x, V(0)), s = t * t;
  const V tail = V(1. / 518918400) - s * (V(1. / 93405312000) - s * V(1. / 22230464256000));
  const V series = V(1. / 30) - s * (V(1. / 840) - s * (V(1. / 45360) - s * (V(1. / 3991680) - s * tail)));
  const V far = (math::cos(V(3.141592653589793) * x) - y) / math::select(near, V(1), x);
  return math::select(near, V(-3.141592653589793) * t * (V(1. / 3) - s * series), far);
}

#define WEFT_PREDICATE(op, form)                                                \
  struct op {                                                                   \
    static constexpr const char* name = #op;                                    \
    static constexpr const char* onnx = form;                                   \
    static constexpr bool cheap = true, predicate = true, floating_only = true; \
    template <class V>                                                          \
    WEFT_HOST_DEVICE static constexpr auto apply(V x) {                         \
      if constexpr (weft::detail::is_dependence<V>)                             \
        return x;                                                               \
      else                                                                      \
        return math::op(x);                                                     \
    }                                                                           \
  };
WEFT_PREDICATE(is_nan, "IsNaN(a)")
WEFT_PREDICATE(is_inf, "IsInf(a)")
WEFT_PREDICATE(is_finite, "Not(Or(IsNaN(a), IsInf(a)))")
#undef WEFT_PREDICATE

/// Formulas of integers alone and, with `takes_bool`, of bool.
#define WEFT_BITS(op, form, with_bool, parameters, arguments, dependences)               \
  struct op {                                                                            \
    static constexpr const char* name = #op;                                             \
    static constexpr const char* onnx = form;                                            \
    static constexpr bool cheap = true, not_differentiable = true, integral_only = true; \
    static constexpr bool takes_bool = with_bool;                                        \
    template <class V>                                                                   \
    WEFT_HOST_DEVICE static constexpr V apply parameters {                               \
      if constexpr (weft::detail::is_dependence<V>)                                      \
        return dependences;                                                              \
      else                                                                               \
        return math::op arguments;                                                       \
    }                                                                                    \
  };
WEFT_BITS(bit_and, "And(a, b) | BitwiseAnd(a, b)", true, (V a, V b), (a, b), weft::detail::joined(a, b))
WEFT_BITS(bit_or, "Or(a, b) | BitwiseOr(a, b)", true, (V a, V b), (a, b), weft::detail::joined(a, b))
WEFT_BITS(bit_xor, "Xor(a, b) | BitwiseXor(a, b)", true, (V a, V b), (a, b), weft::detail::joined(a, b))
WEFT_BITS(shift_left,
          "Cast<to=type>(Where(And(GreaterOrEqual(Cast<to=7>(b), 0L), Less(Cast<to=7>(b), bits)), "
          "Cast<to=7>(BitShift<direction='LEFT'>(Cast<to=13>(a), Cast<to=13>(b))), 0L))",
          false, (V a, V b), (a, b), weft::detail::joined(a, b))
WEFT_BITS(shift_right,  // ONNX shifts unsigned integers: inverts negative ones
          "n = Cast<to=7>(b); s = Where(Less(Cast<to=11>(a), Cast<to=11>(0L)), -1L, 0L); "
          "y = BitShift<direction='RIGHT'>(Cast<to=13>(BitwiseXor(Cast<to=7>(a), s)), Cast<to=13>(n)); "
          "Cast<to=type>(Where(And(GreaterOrEqual(n, 0L), Less(n, bits)), BitwiseXor(Cast<to=7>(y), s), s))",
          false, (V a, V b), (a, b), weft::detail::joined(a, b))
WEFT_BITS(bit_not, "Not(a) | BitwiseNot(a)", true, (V x), (x), x)
WEFT_BITS(popcount,
          "x = BitShift<direction='RIGHT'>(Cast<to=13>(Unsqueeze(a, [-1])), Cast<to=13>(Range(0L, bits, 1L))); "
          "Cast<to=type>(ReduceSum<keepdims=0>(BitwiseAnd(Cast<to=7>(x), 1L), [-1]))",
          false, (V x), (x), x)
#undef WEFT_BITS

/// Define formula::op, whose value is `math::op`; see WEFT_FORMULA_1. The further arguments are the formulas for which
/// symbols need kernels of their own in gradients.
#define WEFT_NODE_FORMULA_1(op, form, is_cheap, derivative, ...)     \
  WEFT_FORMULA_1(op, form, is_cheap, reals, math::op(x), derivative, \
                 using calls = weft::detail::formula_list<__VA_ARGS__>;)
#define WEFT_NODE_FORMULA_2(op, form, is_cheap, elements, derivative_a, derivative_b, ...) \
  WEFT_FORMULA_2(op, form, is_cheap, elements, math::op(a, b), derivative_a, derivative_b, \
                 using calls = weft::detail::formula_list<__VA_ARGS__>;)
// clang-format off
WEFT_NODE_FORMULA_1(mish, "Mish(a)", false, g * mish_slope(x))
WEFT_NODE_FORMULA_1(log_sigmoid, "Neg(Softplus(Neg(a)))", false, g * math::sigmoid(-x))
WEFT_NODE_FORMULA_1(ceil, "Ceil(a)", true, g * V(0), ceil)
WEFT_NODE_FORMULA_1(round, "Round(a)", true, g * V(0), round)
WEFT_NODE_FORMULA_1(trunc, "Mul(Sign(a), Floor(Abs(a)))", true, g * V(0), trunc)
WEFT_NODE_FORMULA_2(floor_div, "Floor(Div(a, b)) | Div(Sub(a, Mod(a, b)), b)", false, numbers, g * V(0), g * V(0), floor_div)
WEFT_NODE_FORMULA_2(floor_mod, "Sub(a, Mul(Floor(Div(a, b)), b)) | Mod(a, b)", false, numbers, g, -g * math::floor_div(a, b), floor_mod, floor_div)
WEFT_NODE_FORMULA_2(fmod, "Mod<fmod=1>(a, b)", false, numbers, g, -g * math::trunc(a / b), fmod, trunc)
WEFT_NODE_FORMULA_1(erfc, "Sub(1, Erf(a))", false, V(-1.1283791670955126) * g * math::exp_of_minus_square(x), erfc)
WEFT_NODE_FORMULA_1(erfinv, nullptr, false, V(0.886226925452758) * g / math::exp_of_minus_square(y), erfinv)
WEFT_NODE_FORMULA_1(digamma, nullptr, false, g * math::trigamma(x), digamma, trigamma)
WEFT_NODE_FORMULA_1(lgamma, nullptr, false, g * math::digamma(x), lgamma, digamma, trigamma)
WEFT_NODE_FORMULA_1(exp2, "Pow(2, a)", false, V(0.6931471805599453) * g * y, exp2)
WEFT_NODE_FORMULA_1(log2, "Div(Log(a), 0.6931471805599453)", false, V(1.4426950408889634) * gradient_over(g, x), log2)
WEFT_NODE_FORMULA_1(log10, "Div(Log(a), 2.302585092994046)", false, V(0.4342944819032518) * gradient_over(g, x), log10)
WEFT_NODE_FORMULA_1(sinc, "Where(Equal(a, 0), 1, Div(Sin(Mul(a, 3.141592653589793)), Mul(a, 3.141592653589793)))", false, g * sinc_slope(x, y), sinc)
WEFT_NODE_FORMULA_2(hypot, "Sqrt(Add(Mul(a, a), Mul(b, b)))", false, reals, g * math::xdivy(a, y), g * math::xdivy(b, y), hypot)
WEFT_NODE_FORMULA_2(logaddexp, "Add(Max(a, b), Log(Add(1, Exp(Neg(Abs(Sub(a, b)))))))", false, reals, g * math::sigmoid(math::select(a == b, V(0), a - b)),
               g * math::sigmoid(math::select(a == b, V(0), b - a)))
WEFT_NODE_FORMULA_2(xlogy, "Where(Equal(a, 0), 0, Mul(a, Log(b)))", false, reals, g * math::log(math::select(a == V(0), math::select(b > V(0), b, V(1)), b)),
               math::xdivy(g * a, b))
WEFT_NODE_FORMULA_1(tan, "Tan(a)", false, g * (V(1) + y * y), tan)
WEFT_NODE_FORMULA_1(asin, "Asin(a)", false, math::multiply_no_nan(math::rsqrt((V(1) - x) * (V(1) + x)), g), asin)
WEFT_NODE_FORMULA_1(acos, "Acos(a)", false, -math::multiply_no_nan(math::rsqrt((V(1) - x) * (V(1) + x)), g), acos)
WEFT_NODE_FORMULA_1(atan, "Atan(a)", false, g / (V(1) + x * x), atan)
WEFT_NODE_FORMULA_1(sinh, "Sinh(a)", false, g * math::cosh(x), sinh, cosh)
WEFT_NODE_FORMULA_1(cosh, "Cosh(a)", false, g * math::sinh(x), sinh, cosh)
WEFT_NODE_FORMULA_1(asinh, "Asinh(a)", false, g * math::rsqrt(V(1) + x * x), asinh)
WEFT_NODE_FORMULA_1(acosh, "Acosh(a)", false, math::multiply_no_nan(math::rsqrt((x - V(1)) * (x + V(1))), g), acosh)
WEFT_NODE_FORMULA_1(atanh, "Atanh(a)", false, math::xdivy(g, (V(1) - x) * (V(1) + x)), atanh)
WEFT_NODE_FORMULA_2(atan2, "Where(And(Equal(a, 0), Equal(b, 0)), 0, Add(Atan(Div(a, b)), Where(Less(b, 0), Where(Less(a, 0), -3.141592653589793, 3.141592653589793), 0)))", false, reals, g * math::xdivy(b, a * a + b * b), -g * math::xdivy(a, a * a + b * b), atan2)
WEFT_NODE_FORMULA_2(heaviside, "Where(Equal(a, 0), b, Where(Less(a, 0), 0, Where(Less(0, a), 1, a)))", true, numbers, g * V(0), math::select(a == V(0), g, V(0)))
// clang-format on
#undef WEFT_NODE_FORMULA_1
#undef WEFT_NODE_FORMULA_2

}  // namespace formula

namespace skeleton {

#define WEFT_MORE_FORMULAS(row)                                                                                      \
  row(mish) row(log_sigmoid) row(ceil) row(round) row(trunc) row(floor_div) row(floor_mod) row(fmod) row(trigamma)   \
      row(erfc) row(erfinv) row(digamma) row(lgamma) row(exp2) row(log2) row(log10) row(sinc) row(hypot)             \
          row(logaddexp) row(xlogy) row(tan) row(asin) row(acos) row(atan) row(sinh) row(cosh) row(asinh) row(acosh) \
              row(atanh) row(atan2) row(is_nan) row(is_inf) row(is_finite) row(heaviside) row(bit_and) row(bit_or)   \
                  row(bit_xor) row(shift_left) row(shift_right) row(bit_not) row(popcount)
#define WEFT_ENUMERATOR(name) name,
enum class more_formulas : unsigned char {
  first = static_cast<unsigned char>(formula_id::logical_or),
  WEFT_MORE_FORMULAS(WEFT_ENUMERATOR)
};
#undef WEFT_ENUMERATOR
#define WEFT_ID(name) \
  template <>         \
  inline constexpr formula_id id_of_formula<formula::name> = static_cast<formula_id>(more_formulas::name);
WEFT_MORE_FORMULAS(WEFT_ID)
#undef WEFT_ID
#undef WEFT_MORE_FORMULAS

}  // namespace skeleton
}  // namespace weft
WEFT_STRICT_END
