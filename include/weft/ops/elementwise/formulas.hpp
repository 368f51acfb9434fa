// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/math.hpp>
#include <weft/ops/dependence.hpp>
#include <weft/ops/skeleton.hpp>
#include <weft/ops/symbol.hpp>

/// The list of elementwise operations. An operation that is missing here has no function that applies it. An operation
/// in the list without a formula, a function in `math` or a declared cost does not compile. The list generates
///
///   - the primitives of which second gradients consist: the enumerators of `primitive`, their kernels for CPUs
///     (ops/primitives.hpp) and GPUs (ops/gpu/skeletons.hpp), and their values for plain numbers;
///   - the functions of `math` on symbols and on dependences;
///   - the functions of the same names on tensors and nodes (ops/elementwise/functions.hpp).
///
/// A row contains a name and the number of operands. An `operation` is an operator, or has a special function. A
/// `function` is computed by the function of `math` of its name; a `composed` operation uses other functions.
// clang-format off
#define WEFT_FORMULAS(operation, function, composed) \
  operation(add, 2)                                  \
  operation(subtract, 2)                             \
  operation(multiply, 2)                             \
  operation(divide, 2)                               \
  operation(negate, 1)                               \
  operation(less, 2)                                 \
  operation(less_equal, 2)                           \
  operation(equal, 2)                                \
  operation(logical_not, 1)                          \
  operation(select, 3)                               \
  operation(multiply_no_nan, 2)                      \
  operation(xdivy, 2)                                \
  function(abs, 1)                                   \
  function(sign, 1)                                  \
  function(floor, 1)                                 \
  function(sqrt, 1)                                  \
  function(rsqrt, 1)                                 \
  function(exp, 1)                                   \
  function(log, 1)                                   \
  function(log1p, 1)                                 \
  function(expm1, 1)                                 \
  function(tanh, 1)                                  \
  function(sigmoid, 1)                               \
  function(erf, 1)                                   \
  function(sin, 1)                                   \
  function(cos, 1)                                   \
  function(pow, 2)                                   \
  function(maximum, 2)                               \
  function(minimum, 2)                               \
  composed(square, 1)                                \
  composed(relu, 1)                                  \
  composed(softplus, 1)                              \
  composed(relu6, 1)                                 \
  composed(elu, 1)                                   \
  composed(selu, 1)                                  \
  composed(gelu, 1)                                  \
  composed(gelu_tanh, 1)                             \
  composed(silu, 1)                                  \
  composed(softsign, 1)                              \
  composed(hard_sigmoid, 1)                          \
  composed(hard_swish, 1)
// clang-format on

#define WEFT_NO_ROW(name, operands)

namespace weft {

#define WEFT_ENUMERATOR(name, operands) name,
enum class primitive : unsigned char { WEFT_FORMULAS(WEFT_ENUMERATOR, WEFT_ENUMERATOR, WEFT_NO_ROW) convert, count };
#undef WEFT_ENUMERATOR

// Kernels use formulas too, but never evaluate them on symbols.
WEFT_COLD_BEGIN
WEFT_QUIET_BEGIN
WEFT_HOST_DEVICE inline symbol operator+(symbol a, symbol b) { return detail::apply_primitive(primitive::add, a, b); }
WEFT_HOST_DEVICE inline symbol operator-(symbol a, symbol b) {
  return detail::apply_primitive(primitive::subtract, a, b);
}
WEFT_HOST_DEVICE inline symbol operator*(symbol a, symbol b) {
  return detail::apply_primitive(primitive::multiply, a, b);
}
WEFT_HOST_DEVICE inline symbol operator/(symbol a, symbol b) {
  return detail::apply_primitive(primitive::divide, a, b);
}
WEFT_HOST_DEVICE inline symbol operator-(symbol a) { return detail::apply_primitive(primitive::negate, a); }
WEFT_HOST_DEVICE inline symbol operator<(symbol a, symbol b) { return detail::apply_primitive(primitive::less, a, b); }
WEFT_HOST_DEVICE inline symbol operator<=(symbol a, symbol b) {
  return detail::apply_primitive(primitive::less_equal, a, b);
}
WEFT_HOST_DEVICE inline symbol operator>(symbol a, symbol b) { return b < a; }
WEFT_HOST_DEVICE inline symbol operator>=(symbol a, symbol b) { return b <= a; }
WEFT_HOST_DEVICE inline symbol operator==(symbol a, symbol b) {
  return detail::apply_primitive(primitive::equal, a, b);
}
WEFT_HOST_DEVICE inline symbol operator!(symbol a) { return detail::apply_primitive(primitive::logical_not, a); }
WEFT_HOST_DEVICE inline symbol operator!=(symbol a, symbol b) { return !(a == b); }

WEFT_HOST_DEVICE constexpr dependence operator+(dependence a, dependence b) {
  return detail::depend(primitive::add, a, b);
}
WEFT_HOST_DEVICE constexpr dependence operator-(dependence a, dependence b) {
  return detail::depend(primitive::subtract, a, b);
}
WEFT_HOST_DEVICE constexpr dependence operator*(dependence a, dependence b) {
  return detail::depend(primitive::multiply, a, b);
}
WEFT_HOST_DEVICE constexpr dependence operator/(dependence a, dependence b) {
  return detail::depend(primitive::divide, a, b);
}
WEFT_HOST_DEVICE constexpr dependence operator-(dependence a) { return detail::depend(primitive::negate, a); }
WEFT_HOST_DEVICE constexpr dependence operator<(dependence a, dependence b) {
  return detail::depend(primitive::less, a, b);
}
WEFT_HOST_DEVICE constexpr dependence operator<=(dependence a, dependence b) {
  return detail::depend(primitive::less_equal, a, b);
}
WEFT_HOST_DEVICE constexpr dependence operator>(dependence a, dependence b) { return b < a; }
WEFT_HOST_DEVICE constexpr dependence operator>=(dependence a, dependence b) { return b <= a; }
WEFT_HOST_DEVICE constexpr dependence operator==(dependence a, dependence b) {
  return detail::depend(primitive::equal, a, b);
}
WEFT_HOST_DEVICE constexpr dependence operator!(dependence a) { return detail::depend(primitive::logical_not, a); }
WEFT_HOST_DEVICE constexpr dependence operator!=(dependence a, dependence b) { return !(a == b); }
WEFT_QUIET_END

/// The functions that formulas may use, on numbers (device/cpu/math.hpp), symbols and dependences.
namespace math {

WEFT_QUIET_BEGIN

#define WEFT_FUNCTION_1(name)                                                                                  \
  static_assert(                                                                                               \
      std::is_same_v<decltype(math::name(0.0f)), float> && std::is_same_v<decltype(math::name(0.0)), double>,  \
      "a function must be defined for float and double");                                                      \
  WEFT_HOST_DEVICE inline symbol name(symbol x) {                                                              \
    return x.is_number() ? symbol(math::name(x.number())) : weft::detail::apply_primitive(primitive::name, x); \
  }                                                                                                            \
  WEFT_HOST_DEVICE constexpr dependence name(dependence x) { return weft::detail::depend(primitive::name, x); }
#define WEFT_FUNCTION_2(name)                                                                     \
  static_assert(std::is_same_v<decltype(math::name(0.0f, 0.0f)), float> &&                        \
                    std::is_same_v<decltype(math::name(0.0, 0.0)), double>,                       \
                "a function must be defined for float and double");                               \
  WEFT_HOST_DEVICE inline symbol name(symbol a, symbol b) {                                       \
    return a.is_number() && b.is_number() ? symbol(math::name(a.number(), b.number()))            \
                                          : weft::detail::apply_primitive(primitive::name, a, b); \
  }                                                                                               \
  WEFT_HOST_DEVICE constexpr dependence name(dependence a, dependence b) {                        \
    return weft::detail::depend(primitive::name, a, b);                                           \
  }
#define WEFT_FUNCTION(name, operands) WEFT_FUNCTION_##operands(name)
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_FUNCTION, WEFT_NO_ROW)
#undef WEFT_FUNCTION
#undef WEFT_FUNCTION_1
#undef WEFT_FUNCTION_2

WEFT_HOST_DEVICE inline symbol select(symbol condition, symbol a, symbol b) {
  const symbol operands[] = {condition, a, b};
  return weft::detail::apply_primitive(primitive::select, operands, 3);
}
WEFT_HOST_DEVICE constexpr dependence select(dependence p, dependence a, dependence b) {
  return weft::detail::depend(primitive::select, p, a, b);
}
WEFT_HOST_DEVICE inline symbol multiply_no_nan(symbol x, symbol y) {
  return weft::detail::apply_primitive(primitive::multiply_no_nan, x, y);
}
WEFT_HOST_DEVICE constexpr dependence multiply_no_nan(dependence x, dependence y) {
  return weft::detail::depend(primitive::multiply_no_nan, x, y);
}
WEFT_HOST_DEVICE inline symbol xdivy(symbol x, symbol y) {
  return weft::detail::apply_primitive(primitive::xdivy, x, y);
}
WEFT_HOST_DEVICE constexpr dependence xdivy(dependence x, dependence y) {
  return weft::detail::depend(primitive::xdivy, x, y);
}
/// Second gradients compute exp_of_minus_square from the rounded x^2.
WEFT_HOST_DEVICE inline symbol exp_of_minus_square(symbol x) { return exp(-(x * x)); }
WEFT_HOST_DEVICE constexpr dependence exp_of_minus_square(dependence x) { return exp(-(x * x)); }
WEFT_HOST_DEVICE inline symbol convert(symbol x, dtype to) {
  return weft::detail::apply_primitive(primitive::convert, &x, 1, to);
}

WEFT_QUIET_END

}  // namespace math
WEFT_COLD_END
}  // namespace weft

WEFT_STRICT_BEGIN

/// The formulas of the elementwise operations. A formula is written once for any kind of value: elements in a kernel's
/// registers, or symbols when its gradient is differentiated again. Operations of one operand have
///
///     apply(x) -> y          gradient(g, x, y) -> dx
///
/// and operations of two have `apply(a, b)`, `gradient_a(g, a, b, y)` and `gradient_b(g, a, b, y)`; g is the upstream
/// gradient and y the result. `floating_only` rejects integers, and `predicate` declares a bool result. An operation is
/// `cheap` if computing it takes less time than loading its operands from memory. Integers wrap around, as in
/// TensorFlow.
///
/// A user's operation is such a struct with a name, applied by `elementwise<op>(x)`; `cheap` defaults to true. Its
/// formulas use the operators, `V(0.5)` for numbers, and the functions of `math`, with `math::select` in place of
/// branches. For nvcc, mark them WEFT_HOST_DEVICE, or constexpr with `--expt-relaxed-constexpr`; otherwise nvcc reports
/// an error.
namespace weft::formula {

struct add {
  static constexpr const char* name = "add";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return static_cast<V>(wrapping(a) + wrapping(b));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V, V, V) {
    return g;
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V, V, V) {
    return g;
  }
};
struct subtract {
  static constexpr const char* name = "subtract";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return static_cast<V>(wrapping(a) - wrapping(b));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V, V, V) {
    return g;
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V, V, V) {
    return -g;
  }
};
struct multiply {
  static constexpr const char* name = "multiply";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return static_cast<V>(wrapping(a) * wrapping(b));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V, V b, V) {
    return g * b;
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V a, V, V) {
    return g * a;
  }
};
/// Rounds quotients of integers towards 0. The smallest integer divided by -1 is itself, like its negation. Throws
/// invalid_argument if an integer is divided by 0; on a GPU, which cannot throw, the quotient is 0.
struct divide {
  static constexpr const char* name = "divide";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      if (b == V(0)) return by_zero<V>();
      if (V(-1) < V(0) && b == V(-1)) return static_cast<V>(std::uint64_t{0} - static_cast<std::uint64_t>(a));
    }
    return static_cast<V>(a / b);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V, V b, V) {
    return g / b;
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V, V b, V y) {
    return -(g * y) / b;
  }

 private:
  template <class V>
  [[gnu::noinline, gnu::cold]] WEFT_HOST_DEVICE static V by_zero() {
#if !defined(__CUDA_ARCH__)
    throw error(error_code::invalid_argument, name, "integer division by zero");
#else
    return 0;
#endif
  }
};
/// x * y, and 0 if y is 0, for any x (tf.math.multiply_no_nan). With xdivy, expresses the gradients that TensorFlow
/// defines as 0 if the upstream gradient is 0.
struct multiply_no_nan {
  static constexpr const char* name = "multiply_no_nan";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x, V y) {
    return math::multiply_no_nan(x, y);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V, V y, V) {
    return zero_if_either_is(g, y);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V x, V, V) {
    return math::multiply_no_nan(x, g);
  }
  /// a * b, and 0 if a or b is 0.
  template <class V>
  WEFT_HOST_DEVICE static constexpr V zero_if_either_is(V a, V b) {
    return math::select(a == V(0), V(0), math::multiply_no_nan(a, b));
  }
};
/// x / y, and 0 if x is 0, for any y (tf.math.xdivy). If x is 0, TensorFlow's gradient with respect to x is 0, but this
/// one is g / y, since gradients of gradients are linear in x.
struct xdivy {
  static constexpr const char* name = "xdivy";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x, V y) {
    return math::xdivy(x, y);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V, V y, V) {
    return math::xdivy(g, y);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V, V y, V z) {
    return -math::xdivy(multiply_no_nan::zero_if_either_is(z, g), y);
  }
};
struct negate {
  static constexpr const char* name = "negate";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return static_cast<V>(-wrapping(x));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V) {
    return -g;
  }
};
/// |x| (tf.abs). The smallest integer is its own absolute value. The gradient at 0 is 0.
struct abs {
  static constexpr const char* name = "abs";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::abs(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return g * math::sign(x);
  }
};
/// -1, 0 or 1, the sign of x; NaN for NaN (tf.sign). The gradient is 0 everywhere.
struct sign {
  static constexpr const char* name = "sign";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::sign(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V) {
    return g * V(0);
  }
};
/// The largest integer not above x, for float or double (tf.floor). The gradient is 0 everywhere.
struct floor {
  static constexpr const char* name = "floor";
  static constexpr bool cheap = true, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::floor(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V) {
    return g * V(0);
  }
};
/// x * x (tf.square). Integers wrap around.
struct square {
  static constexpr const char* name = "square";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return static_cast<V>(wrapping(x) * wrapping(x));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return (g + g) * x;
  }
};
/// The square root of float or double, NaN below 0 (tf.sqrt). As in TensorFlow, the gradient is 0 if the upstream
/// gradient is 0, even at x = 0, where the derivative is infinite.
struct sqrt {
  static constexpr const char* name = "sqrt";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::sqrt(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {
    return math::xdivy(V(0.5) * g, y);
  }
};
/// 1 / sqrt(x) for float or double: infinite at 0 and NaN below (tf.math.rsqrt). The gradient is 0 if the upstream
/// gradient is 0, as for sqrt.
struct rsqrt {
  static constexpr const char* name = "rsqrt";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::rsqrt(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {
    // Multiplies one factor at a time, so that each gradient of this formula is also 0 if its upstream gradient is 0.
    return math::multiply_no_nan(y, math::multiply_no_nan(y, math::multiply_no_nan(y, V(-0.5) * g)));
  }
};
/// Returns g / x for use in a gradient. When this gradient is differentiated, 1 / x is a value whose own gradient is 0
/// if its upstream gradient is 0, like TensorFlow's reciprocal.
template <class V>
WEFT_HOST_DEVICE constexpr V gradient_over(V g, V x) {
  if constexpr (std::is_floating_point_v<V>)
    return g / x;
  else
    return g * math::xdivy(V(1), x);
}
/// e to the power x, for float or double (tf.exp); infinite on overflow.
struct exp {
  static constexpr const char* name = "exp";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::exp(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {
    return g * y;
  }
};
/// The natural logarithm of float or double (tf.math.log): -inf at 0 and NaN below 0.
struct log {
  static constexpr const char* name = "log";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::log(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return gradient_over(g, x);
  }
};
/// log(1 + x) of float or double, accurate near 0 (tf.math.log1p): -inf at -1 and NaN below -1.
struct log1p {
  static constexpr const char* name = "log1p";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::log1p(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return gradient_over(g, V(1) + x);
  }
};
/// exp(x) - 1 of float or double, accurate near 0 (tf.math.expm1).
struct expm1 {
  static constexpr const char* name = "expm1";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::expm1(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return g * math::exp(x);  // y + 1 would lose precision for x far below 0
  }
};
/// a to the power b, for float or double (tf.pow): NaN if a is negative and b is not an integer. As in TensorFlow, the
/// gradient with respect to b is 0 if a is not positive, here even if the power is infinite or NaN; TensorFlow's
/// gradient is NaN there.
struct pow {
  static constexpr const char* name = "pow";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return math::pow(a, b);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V a, V b, V) {
    // 0 if b is 0, even at a = 0, where a^-1 is inf. The power is then of 1, so that its own gradients are finite.
    const auto constant = b == V(0);
    return math::select(constant, V(0), g * b * math::pow(math::select(constant, V(1), a), b - V(1)));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V a, V, V y) {
    const auto positive = a > V(0);
    return math::select(positive, g * y * math::log(math::select(positive, a, V(1))), V(0));
  }
};
/// The hyperbolic tangent of float or double (tf.tanh).
struct tanh {
  static constexpr const char* name = "tanh";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::tanh(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {
    return g * (V(1) - y * y);
  }
};
/// The logistic function 1 / (1 + exp(-x)) of float or double (tf.sigmoid).
struct sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::sigmoid(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {
    return g * y * (V(1) - y);
  }
};
/// The error function of float or double (tf.math.erf): 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.
struct erf {
  static constexpr const char* name = "erf";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::erf(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return V(1.1283791670955126) * g * math::exp_of_minus_square(x);  // 2 / sqrt(pi)
  }
};
/// The sine of an angle in radians, float or double (tf.sin); NaN for an infinite angle.
struct sin {
  static constexpr const char* name = "sin";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::sin(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return g * math::cos(x);
  }
};
/// The cosine of an angle in radians, float or double (tf.cos); NaN for an infinite angle.
struct cos {
  static constexpr const char* name = "cos";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::cos(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return -g * math::sin(x);
  }
};
/// log(1 + exp(x)) of float or double (tf.nn.softplus). Does not overflow for large x, and keeps its relative accuracy
/// for negative x.
struct softplus {
  static constexpr const char* name = "softplus";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::maximum(x, V(0)) + math::log1p(math::exp(-math::abs(x)));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return g * math::sigmoid(x);
  }
};
/// max(x, 0) (tf.nn.relu); NaN for NaN. The gradient at 0 is 0.
struct relu {
  static constexpr const char* name = "relu";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::maximum(x, V(0));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {  // uses y, so that y can overwrite x in place
    return math::select(y > V(0), g, V(0));
  }
};
/// min(max(x, 0), 6) (tf.nn.relu6).
struct relu6 {
  static constexpr const char* name = "relu6";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::minimum(math::maximum(x, V(0)), V(6));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {
    return math::select(y < V(6), math::select(y > V(0), g, V(0)), V(0));
  }
};
/// x if positive, e^x - 1 otherwise (tf.nn.elu; Clevert et al. 2015).
struct elu {
  static constexpr const char* name = "elu";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::select(x < V(0), math::expm1(x), x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    // Not exp(x) everywhere: if it is infinite or NaN, the next gradient would multiply it by 0.
    return g * math::exp(math::select(x < V(0), x, V(0)));
  }
};
/// elu with two factors that keep the mean of activations at 0 and their variance at 1 (tf.nn.selu; Klambauer et al.,
/// Self-Normalizing Neural Networks, 2017). As in TensorFlow, the gradient at 0 is the positive side's.
struct selu {
  static constexpr const char* name = "selu";
  static constexpr bool cheap = false, floating_only = true;
  static constexpr double above = 1.0507009873554805, below = 1.7580993408473766;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::select(x < V(0), V(below) * math::expm1(x), V(above) * x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return g * math::select(x < V(0), V(below) * math::exp(math::select(x < V(0), x, V(0))), V(above));
  }
};
/// x times the probability that a standard normal variable is below x (tf.nn.gelu; Hendrycks and Gimpel 2016). As in
/// TensorFlow and PyTorch, computing 1 + erf loses the small probabilities of x far below 0 to rounding.
struct gelu {
  static constexpr const char* name = "gelu";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V below(V x) {
    return V(0.5) + V(0.5) * math::erf(x * V(0.7071067811865476));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return x * below(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return g * (below(x) + x * V(0.3989422804014327) * math::exp(V(-0.5) * x * x));  // 1 / sqrt(2 pi)
  }
};
/// The approximation x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)) of gelu (tf.nn.gelu(x, approximate=True)), usually
/// written with tanh.
struct gelu_tanh {
  static constexpr const char* name = "gelu_tanh";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V curve(V x) {
    return x * (V(1.5957691216057308) + V(0.07135481627260025) * x * x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return x * math::sigmoid(curve(x));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    const V s = math::sigmoid(curve(x)), rest = math::sigmoid(-curve(x));  // 1 - s would lose precision for s near 1
    return g * (s + x * (s * rest) * (V(1.5957691216057308) + V(0.21406444881780076) * x * x));
  }
};
/// x sigmoid(x) (tf.nn.silu), also called swish.
struct silu {
  static constexpr const char* name = "silu";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return x * math::sigmoid(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    const V s = math::sigmoid(x);
    return g * (s + x * s * (V(1) - s));
  }
};
/// x / (1 + |x|) (tf.nn.softsign).
struct softsign {
  static constexpr const char* name = "softsign";
  static constexpr bool cheap = true, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return x / (V(1) + math::abs(x));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    const V d = V(1) + math::abs(x);
    return g / (d * d);
  }
};
/// relu6(x + 3) / 6 (torch.nn.functional.hardsigmoid; the slope of Keras 2 differs).
struct hard_sigmoid {
  static constexpr const char* name = "hard_sigmoid";
  static constexpr bool cheap = true, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::minimum(math::maximum(x + V(3), V(0)), V(6)) / V(6);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return math::select(x < V(3), math::select(x > V(-3), g / V(6), V(0)), V(0));
  }
};
/// x relu6(x + 3) / 6 (torch.nn.functional.hardswish; Howard et al., Searching for MobileNetV3, 2019).
struct hard_swish {
  static constexpr const char* name = "hard_swish";
  static constexpr bool cheap = true, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return x * (math::minimum(math::maximum(x + V(3), V(0)), V(6)) / V(6));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return math::select(x < V(3), math::select(x > V(-3), g * (x + V(1.5)) / V(3), V(0)), g);
  }
};
/// The larger of a and b, NaN if either is NaN (tf.maximum). As in TensorFlow, the gradient goes to a if they are
/// equal, and to b if either is NaN.
struct maximum {
  static constexpr const char* name = "maximum";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return math::maximum(a, b);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V a, V b, V) {
    return math::select(a >= b, g, V(0));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V a, V b, V) {
    return math::select(a >= b, V(0), g);
  }
};
/// The smaller of a and b, NaN if either is NaN (tf.minimum). As in TensorFlow, the gradient goes to a if they are
/// equal, and to b if either is NaN.
struct minimum {
  static constexpr const char* name = "minimum";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return math::minimum(a, b);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V a, V b, V) {
    return math::select(a <= b, g, V(0));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V a, V b, V) {
    return math::select(a <= b, V(0), g);
  }
};

struct less {
  static constexpr const char* name = "less";
  static constexpr bool cheap = true, predicate = true, orders = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return a < b;
  }
};
struct less_equal {
  static constexpr const char* name = "less_equal";
  static constexpr bool cheap = true, predicate = true, orders = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return a <= b;
  }
};
struct greater {
  static constexpr const char* name = "greater";
  static constexpr bool cheap = true, predicate = true, orders = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return a > b;
  }
};
struct greater_equal {
  static constexpr const char* name = "greater_equal";
  static constexpr bool cheap = true, predicate = true, orders = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return a >= b;
  }
};
struct equal {
  static constexpr const char* name = "equal";
  static constexpr bool cheap = true, predicate = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return a == b;
  }
};
struct not_equal {
  static constexpr const char* name = "not_equal";
  static constexpr bool cheap = true, predicate = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return !(a == b);
  }
};
struct logical_and {
  static constexpr const char* name = "logical_and";
  static constexpr bool cheap = true, predicate = true, of_bools = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return math::select(a, b, a);
  }
};
struct logical_or {
  static constexpr const char* name = "logical_or";
  static constexpr bool cheap = true, predicate = true, of_bools = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return math::select(a, a, b);
  }
};
struct logical_not {
  static constexpr const char* name = "logical_not";
  static constexpr bool cheap = true, predicate = true, of_bools = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a) {
    return !a;
  }
};
struct select {
  static constexpr const char* name = "select";
  static constexpr bool cheap = true;
  template <class P, class V>
  WEFT_HOST_DEVICE static constexpr V apply(P p, V a, V b) {
    return math::select(p, a, b);
  }
  template <class P, class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, P p, V, V, V) {
    return math::select(p, g, V(0));
  }
  template <class P, class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, P p, V, V, V) {
    return math::select(p, V(0), g);
  }
};
/// Converts the element type; storage-only types go through float. C++ leaves conversions of numbers outside an integer
/// type's range undefined, and processors differ. Here such a number becomes the nearest integer of the type, and a NaN
/// 0, as on GPUs.
template <class To>
struct cast {
  static constexpr const char* name = "cast";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V x) {
    if constexpr (std::is_same_v<V, symbol>)
      return convert(x, dtype_of<To>);
    else if constexpr (std::is_same_v<V, dependence>)
      return detail::depend(primitive::convert, x);
    else if constexpr (math::exceeds<V, To>)
      return math::nearest_integer<To>(static_cast<std::conditional_t<std::is_same_v<V, double>, double, float>>(x));
    else
      return static_cast<To>(x);
  }
  template <class Upstream, class V, class Y>
  WEFT_HOST_DEVICE static constexpr V gradient(Upstream g, V x, Y) {
    if constexpr (std::is_same_v<V, symbol>)
      return convert(g, x.type());
    else if constexpr (std::is_same_v<V, dependence>)
      return detail::depend(primitive::convert, g);
    else
      return static_cast<V>(g);
  }

 private:
  WEFT_HOST_DEVICE static symbol convert(symbol x, dtype to) { return math::convert(x, to); }
};

}  // namespace weft::formula

namespace weft::detail {

template <class... Op>
struct formula_list {};

/// The formulas of the primitives, in order: of all primitives except conversions, which have one formula for each
/// type.
struct no_formula {};
#define WEFT_FORMULA(name, operands) , formula::name
template <class, class... Op>
using formulas_behind = formula_list<Op...>;
using primitive_formulas = formulas_behind<no_formula WEFT_FORMULAS(WEFT_FORMULA, WEFT_FORMULA, WEFT_NO_ROW)>;
#undef WEFT_FORMULA

}  // namespace weft::detail

namespace weft::skeleton {

#define WEFT_ENUMERATOR(name, operands) name,
enum class formula_id : unsigned char { other, WEFT_FORMULAS(WEFT_ENUMERATOR, WEFT_ENUMERATOR, WEFT_ENUMERATOR) cast };
#undef WEFT_ENUMERATOR
#define WEFT_ID(name, operands) \
  template <>                   \
  inline constexpr formula_id id_of_formula<formula::name> = formula_id::name;
WEFT_FORMULAS(WEFT_ID, WEFT_ID, WEFT_ID)
#undef WEFT_ID
template <class To>
inline constexpr formula_id id_of_formula<formula::cast<To>> = formula_id::cast;

}  // namespace weft::skeleton

namespace weft::detail {

template <class Op>
inline constexpr primitive primitive_of = primitive::convert;
#define WEFT_PRIMITIVE(name, operands) \
  template <>                          \
  inline constexpr primitive primitive_of<formula::name> = primitive::name;
WEFT_FORMULAS(WEFT_PRIMITIVE, WEFT_PRIMITIVE, WEFT_NO_ROW)
#undef WEFT_PRIMITIVE

/// The primitives in sums of first gradients of fused expressions, and in the gradient of softmax. Every program that
/// trains needs them.
inline constexpr primitive_set in_first_gradients{primitive::add, primitive::subtract, primitive::multiply,
                                                  primitive::negate, primitive::exp};

/// All operators and operations with special functions, in which the gradients of operations are written.
#define WEFT_SET(name, operands) | primitive_set(primitive::name)
inline constexpr primitive_set in_gradients =
    primitive_set(primitive::convert, primitive::exp) WEFT_FORMULAS(WEFT_SET, WEFT_NO_ROW, WEFT_NO_ROW);
/// All operators and functions, in which users' formulas can be written.
inline constexpr primitive_set in_formulas =
    primitive_set(primitive::convert) WEFT_FORMULAS(WEFT_SET, WEFT_SET, WEFT_NO_ROW);
#undef WEFT_SET

template <class Op, class T>
inline constexpr bool takes_one = requires(T x) { Op::apply(x); };
template <class Op, class T>
inline constexpr bool takes_two = requires(T x) { Op::apply(x, x); };

/// The type of a formula's result for elements of type T.
template <class Op>
inline constexpr bool is_predicate = requires { Op::predicate; };
template <class Op, class T>
using primitive_result = std::conditional_t<is_predicate<Op>, bool, T>;

// Each row requires a formula of its name that declares its cost.
constexpr bool same_words(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}
#define WEFT_CHECK(operation, operands)                                                                       \
  static_assert(same_words(formula::operation::name, #operation), "a formula must have the name of its row"); \
  static_assert(formula::operation::cheap || !formula::operation::cheap, "a formula must define cheap");
WEFT_FORMULAS(WEFT_CHECK, WEFT_CHECK, WEFT_CHECK)
#undef WEFT_CHECK

}  // namespace weft::detail

WEFT_STRICT_END
