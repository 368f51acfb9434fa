// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/math.hpp>
#include <weft/ops/skeleton.hpp>

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

class symbol;
struct dependence;

/// The functions of symbols and dependences that formulas use, defined in formulas_of_symbols.hpp. Kernels, and
/// programs that only contain frozen models, never call them.
namespace math {

#define WEFT_FUNCTION_1(name)                    \
  WEFT_HOST_DEVICE inline symbol name(symbol x); \
  WEFT_HOST_DEVICE constexpr dependence name(dependence x);
#define WEFT_FUNCTION_2(name)                              \
  WEFT_HOST_DEVICE inline symbol name(symbol x, symbol y); \
  WEFT_HOST_DEVICE constexpr dependence name(dependence x, dependence y);
#define WEFT_FUNCTION(name, operands) WEFT_FUNCTION_##operands(name)
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_FUNCTION, WEFT_NO_ROW)
WEFT_FUNCTION_2(multiply_no_nan)
WEFT_FUNCTION_2(xdivy)
WEFT_FUNCTION_1(exp_of_minus_square)
#undef WEFT_FUNCTION
#undef WEFT_FUNCTION_1
#undef WEFT_FUNCTION_2
WEFT_HOST_DEVICE inline symbol select(symbol condition, symbol a, symbol b);
WEFT_HOST_DEVICE constexpr dependence select(dependence p, dependence a, dependence b);
WEFT_HOST_DEVICE inline symbol convert(symbol x, dtype to);
WEFT_HOST_DEVICE constexpr dependence convert(dependence x);

}  // namespace math

namespace detail {
template <class V>
[[gnu::noinline, gnu::cold]] WEFT_HOST_DEVICE V divided_by_zero();
}
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

/// Defines formula::op of one operand, x. `form` is its ONNX form (onnx/forms.hpp), or null. `elements` is `numbers`,
/// or `reals` for float and double only. The value is an expression of V x, and the gradient of the upstream gradient
/// g, x and the result y. Further arguments are members.
#define WEFT_FORMULA_1(op, form, is_cheap, elements, value, derivative, ...)                                         \
  struct op {                                                                                                        \
    static constexpr const char* name = #op;                                                                         \
    static constexpr const char* onnx = form;                                                                        \
    static constexpr bool cheap = is_cheap WEFT_ELEMENTS_##elements;                                                 \
    __VA_ARGS__                                                                                                      \
    template <class V>                                                                                               \
    WEFT_HOST_DEVICE static constexpr V apply(V x) {                                                                 \
      return value;                                                                                                  \
    }                                                                                                                \
    template <class V>                                                                                               \
    WEFT_HOST_DEVICE static constexpr V gradient([[maybe_unused]] V g, [[maybe_unused]] V x, [[maybe_unused]] V y) { \
      return derivative;                                                                                             \
    }                                                                                                                \
  };
/// Defines formula::op of two operands, a and b.
#define WEFT_FORMULA_2(op, form, is_cheap, elements, value, derivative_a, derivative_b, ...)                         \
  struct op {                                                                                                        \
    static constexpr const char* name = #op;                                                                         \
    static constexpr const char* onnx = form;                                                                        \
    static constexpr bool cheap = is_cheap WEFT_ELEMENTS_##elements;                                                 \
    __VA_ARGS__                                                                                                      \
    template <class V>                                                                                               \
    WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {                                                            \
      return value;                                                                                                  \
    }                                                                                                                \
    template <class V>                                                                                               \
    WEFT_HOST_DEVICE static constexpr V gradient_a([[maybe_unused]] V g, [[maybe_unused]] V a, [[maybe_unused]] V b, \
                                                   [[maybe_unused]] V y) {                                           \
      return derivative_a;                                                                                           \
    }                                                                                                                \
    template <class V>                                                                                               \
    WEFT_HOST_DEVICE static constexpr V gradient_b([[maybe_unused]] V g, [[maybe_unused]] V a, [[maybe_unused]] V b, \
                                                   [[maybe_unused]] V y) {                                           \
      return derivative_b;                                                                                           \
    }                                                                                                                \
  };
#define WEFT_ELEMENTS_reals , floating_only = true
#define WEFT_ELEMENTS_numbers

// clang-format off
WEFT_FORMULA_2(add, "Add(a, b)", true, numbers, static_cast<V>(wrapping(a) + wrapping(b)), g, g)
WEFT_FORMULA_2(subtract, "Sub(a, b)", true, numbers, static_cast<V>(wrapping(a) - wrapping(b)), g, -g)
WEFT_FORMULA_2(multiply, "Mul(a, b)", true, numbers, static_cast<V>(wrapping(a) * wrapping(b)), g * b, g * a)
// clang-format on
/// Rounds quotients of integers towards 0. The smallest integer divided by -1 is itself, like its negation. Throws
/// invalid_argument if an integer is divided by 0; on a GPU, which cannot throw, the quotient is 0.
struct divide {
  static constexpr const char* name = "divide";
  static constexpr const char* onnx = "Div(a, b)";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      if (b == V(0)) return detail::divided_by_zero<V>();
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
};
/// a * b, and 0 if a or b is 0.
template <class V>
WEFT_HOST_DEVICE constexpr V zero_if_either_is(V a, V b) {
  return math::select(a == V(0), V(0), math::multiply_no_nan(a, b));
}
// clang-format off
/// a * b, and 0 if b is 0, for any a (tf.math.multiply_no_nan). With xdivy, expresses the gradients that TensorFlow
/// defines as 0 if the upstream gradient is 0.
WEFT_FORMULA_2(multiply_no_nan, "Where(Equal(b, 0), 0, Mul(a, b))", true, numbers, math::multiply_no_nan(a, b), zero_if_either_is(g, b),
               math::multiply_no_nan(a, g))
/// a / b, and 0 if a is 0, for any b (tf.math.xdivy). If a is 0, TensorFlow's gradient with respect to a is 0, but this
/// one is g / b, since gradients of gradients are linear in a.
WEFT_FORMULA_2(xdivy, "Where(Equal(a, 0), 0, Div(a, b))", true, numbers, math::xdivy(a, b), math::xdivy(g, b), -math::xdivy(zero_if_either_is(y, g), b))
WEFT_FORMULA_1(negate, "Neg(a)", true, numbers, static_cast<V>(-wrapping(x)), -g)
/// |x| (tf.abs). The smallest integer is its own absolute value. The gradient at 0 is 0.
WEFT_FORMULA_1(abs, "Abs(a)", true, numbers, math::abs(x), g * math::sign(x))
/// -1, 0 or 1, the sign of x; NaN for NaN (tf.sign). The gradient is 0 everywhere.
WEFT_FORMULA_1(sign, "Sign(a)", true, numbers, math::sign(x), g * V(0))
/// The largest integer not above x, for float or double (tf.floor). The gradient is 0 everywhere.
WEFT_FORMULA_1(floor, "Floor(a)", true, reals, math::floor(x), g * V(0))
/// x * x (tf.square). Integers wrap around.
WEFT_FORMULA_1(square, "Mul(a, a)", true, numbers, static_cast<V>(wrapping(x) * wrapping(x)), (g + g) * x)
/// The square root of float or double, NaN below 0 (tf.sqrt). As in TensorFlow, the gradient is 0 if the upstream
/// gradient is 0, even at x = 0, where the derivative is infinite.
WEFT_FORMULA_1(sqrt, "Sqrt(a)", false, reals, math::sqrt(x), math::xdivy(V(0.5) * g, y))
/// 1 / sqrt(x) for float or double: infinite at 0 and NaN below (tf.math.rsqrt). The gradient is 0 if the upstream
/// gradient is 0, as for sqrt: one factor at a time, so that this also holds for each gradient of this formula.
WEFT_FORMULA_1(rsqrt, "Div(1, Sqrt(a))", false, reals, math::rsqrt(x),
               math::multiply_no_nan(y, math::multiply_no_nan(y, math::multiply_no_nan(y, V(-0.5) * g))))
// clang-format on
/// Returns g / x for use in a gradient. When this gradient is differentiated, 1 / x is a value whose own gradient is 0
/// if its upstream gradient is 0, like TensorFlow's reciprocal.
template <class V>
WEFT_HOST_DEVICE constexpr V gradient_over(V g, V x) {
  if constexpr (std::is_floating_point_v<V>)
    return g / x;
  else
    return g * math::xdivy(V(1), x);
}
// clang-format off
/// e to the power x, for float or double (tf.exp); infinite on overflow.
WEFT_FORMULA_1(exp, "Exp(a)", false, reals, math::exp(x), g * y)
/// The natural logarithm of float or double (tf.math.log): -inf at 0 and NaN below 0.
WEFT_FORMULA_1(log, "Log(a)", false, reals, math::log(x), gradient_over(g, x))
/// log(1 + x) of float or double, accurate near 0 (tf.math.log1p): -inf at -1 and NaN below -1.
WEFT_FORMULA_1(log1p, "Log(Add(1, a))", false, reals, math::log1p(x), gradient_over(g, V(1) + x))
/// exp(x) - 1 of float or double, accurate near 0 (tf.math.expm1).
WEFT_FORMULA_1(expm1, "Sub(Exp(a), 1)", false, reals, math::expm1(x), g * math::exp(x))  // y + 1 would lose precision for x far below 0
// clang-format on
/// a to the power b, for float or double (tf.pow): NaN if a is negative and b is not an integer. As in TensorFlow, the
/// gradient with respect to b is 0 if a is not positive, here even if the power is infinite or NaN; TensorFlow's
/// gradient is NaN there.
struct pow {
  static constexpr const char* name = "pow";
  static constexpr const char* onnx = "Pow(a, b)";
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
// clang-format off
/// The hyperbolic tangent of float or double (tf.tanh).
WEFT_FORMULA_1(tanh, "Tanh(a)", false, reals, math::tanh(x), g * (V(1) - y * y))
/// The logistic function 1 / (1 + exp(-x)) of float or double (tf.sigmoid).
WEFT_FORMULA_1(sigmoid, "Sigmoid(a)", false, reals, math::sigmoid(x), g * y * (V(1) - y))
/// The error function of float or double (tf.math.erf): 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.
WEFT_FORMULA_1(erf, "Erf(a)", false, reals, math::erf(x), V(1.1283791670955126) * g * math::exp_of_minus_square(x))  // 2 / sqrt(pi)
/// The sine of an angle in radians, float or double (tf.sin); NaN for an infinite angle.
WEFT_FORMULA_1(sin, "Sin(a)", false, reals, math::sin(x), g * math::cos(x))
/// The cosine of an angle in radians, float or double (tf.cos); NaN for an infinite angle.
WEFT_FORMULA_1(cos, "Cos(a)", false, reals, math::cos(x), -g * math::sin(x))
/// log(1 + exp(x)) of float or double (tf.nn.softplus). Does not overflow for large x, and keeps its relative accuracy
/// for negative x.
WEFT_FORMULA_1(softplus, "Softplus(a)", false, reals, math::maximum(x, V(0)) + math::log1p(math::exp(-math::abs(x))), g * math::sigmoid(x))
/// max(x, 0) (tf.nn.relu); NaN for NaN. The gradient at 0 is 0.
WEFT_FORMULA_1(relu, "Relu(a)", true, numbers, math::maximum(x, V(0)), math::select(y > V(0), g, V(0)))  // y can overwrite x
/// min(max(x, 0), 6) (tf.nn.relu6).
WEFT_FORMULA_1(relu6, "Min(Max(a, 0), 6)", true, numbers, math::minimum(math::maximum(x, V(0)), V(6)),
               math::select(y < V(6), math::select(y > V(0), g, V(0)), V(0)))
/// x if positive, e^x - 1 otherwise (tf.nn.elu; Clevert et al. 2015).
// The gradient is not exp(x) everywhere: if it is infinite or NaN, the next gradient would multiply it by 0.
WEFT_FORMULA_1(elu, "Elu(a)", false, reals, math::select(x < V(0), math::expm1(x), x),
               g * math::exp(math::select(x < V(0), x, V(0))))
/// elu with two factors that keep the mean of activations at 0 and their variance at 1 (tf.nn.selu; Klambauer et al.,
/// Self-Normalizing Neural Networks, 2017). As in TensorFlow, the gradient at 0 is the positive side's.
WEFT_FORMULA_1(selu, "Selu(a)", false, reals, math::select(x < V(0), V(below) * math::expm1(x), V(above) * x),
               g * math::select(x < V(0), V(below) * math::exp(math::select(x < V(0), x, V(0))), V(above)),
               static constexpr double above = 1.0507009873554805, below = 1.7580993408473766;)
// clang-format on
template <class V>
WEFT_HOST_DEVICE constexpr V normal_below(V x) {
  return V(0.5) + V(0.5) * math::erf(x * V(0.7071067811865476));
}
template <class V>
WEFT_HOST_DEVICE constexpr V gelu_curve(V x) {
  return x * (V(1.5957691216057308) + V(0.07135481627260025) * x * x);
}
template <class V>
WEFT_HOST_DEVICE constexpr V gelu_tanh_slope(V x) {
  const V s = math::sigmoid(gelu_curve(x)), rest = math::sigmoid(-gelu_curve(x));  // 1 - s would lose precision near 1
  return s + x * (s * rest) * (V(1.5957691216057308) + V(0.21406444881780076) * x * x);
}
template <class V>
WEFT_HOST_DEVICE constexpr V silu_slope(V x) {
  const V s = math::sigmoid(x);
  return s + x * s * (V(1) - s);
}
template <class V>
WEFT_HOST_DEVICE constexpr V softsign_gradient(V g, V x) {
  const V d = V(1) + math::abs(x);
  return g / (d * d);
}
// clang-format off
/// x times the probability that a standard normal variable is below x (tf.nn.gelu; Hendrycks and Gimpel 2016). As in
/// TensorFlow and PyTorch, computing 1 + erf loses the small probabilities of x far below 0 to rounding.
WEFT_FORMULA_1(gelu, "Gelu(a)", false, reals, x * normal_below(x),
               g * (normal_below(x) + x * V(0.3989422804014327) * math::exp(V(-0.5) * x * x)))  // 1 / sqrt(2 pi)
/// The approximation x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)) of gelu (tf.nn.gelu(x, approximate=True)), usually
/// written with tanh.
WEFT_FORMULA_1(gelu_tanh, "Gelu<approximate='tanh'>(a)", false, reals, x * math::sigmoid(gelu_curve(x)), g * gelu_tanh_slope(x))
/// x sigmoid(x) (tf.nn.silu), also called swish.
WEFT_FORMULA_1(silu, "Mul(a, Sigmoid(a))", false, reals, x * math::sigmoid(x), g * silu_slope(x))
/// x / (1 + |x|) (tf.nn.softsign).
WEFT_FORMULA_1(softsign, "Softsign(a)", true, reals, x / (V(1) + math::abs(x)), softsign_gradient(g, x))
/// relu6(x + 3) / 6 (torch.nn.functional.hardsigmoid; the slope of Keras 2 differs).
WEFT_FORMULA_1(hard_sigmoid, "HardSigmoid<alpha=0.16666667>(a)", true, reals, math::minimum(math::maximum(x + V(3), V(0)), V(6)) / V(6),
               math::select(x < V(3), math::select(x > V(-3), g / V(6), V(0)), V(0)))
/// x relu6(x + 3) / 6 (torch.nn.functional.hardswish; Howard et al., Searching for MobileNetV3, 2019).
WEFT_FORMULA_1(hard_swish, "HardSwish(a)", true, reals, x * (math::minimum(math::maximum(x + V(3), V(0)), V(6)) / V(6)),
               math::select(x < V(3), math::select(x > V(-3), g * (x + V(1.5)) / V(3), V(0)), g))
/// The larger of a and b, NaN if either is NaN (tf.maximum). As in TensorFlow, the gradient goes to a if they are
/// equal, and to b if either is NaN.
WEFT_FORMULA_2(maximum, "Max(a, b)", true, numbers, math::maximum(a, b), math::select(a >= b, g, V(0)), math::select(a >= b, V(0), g))
/// The smaller of a and b, NaN if either is NaN (tf.minimum). As in TensorFlow, the gradient goes to a if they are
/// equal, and to b if either is NaN.
WEFT_FORMULA_2(minimum, "Min(a, b)", true, numbers, math::minimum(a, b), math::select(a <= b, g, V(0)), math::select(a <= b, V(0), g))

/// Defines formulas whose results are bool; `members` are further members, such as `orders`.
#define WEFT_PREDICATE(op, form, operands, type, value, members)   \
  struct op {                                                      \
    static constexpr const char* name = #op;                       \
    static constexpr const char* onnx = form;                      \
    static constexpr bool cheap = true, predicate = true members;  \
    template <class V>                                             \
    WEFT_HOST_DEVICE static constexpr type apply operands {        \
      return value;                                                \
    }                                                              \
  };
#define WEFT_ORDERS , orders = true
#define WEFT_OF_BOOLS , of_bools = true
WEFT_PREDICATE(less, "Less(a, b)", (V a, V b), auto, a < b, WEFT_ORDERS)
WEFT_PREDICATE(less_equal, "LessOrEqual(a, b)", (V a, V b), auto, a <= b, WEFT_ORDERS)
WEFT_PREDICATE(greater, "Greater(a, b)", (V a, V b), auto, a > b, WEFT_ORDERS)
WEFT_PREDICATE(greater_equal, "GreaterOrEqual(a, b)", (V a, V b), auto, a >= b, WEFT_ORDERS)
WEFT_PREDICATE(equal, "Equal(a, b)", (V a, V b), auto, a == b, )
WEFT_PREDICATE(not_equal, "Not(Equal(a, b))", (V a, V b), auto, !(a == b), )
WEFT_PREDICATE(logical_and, "And(a, b)", (V a, V b), V, math::select(a, b, a), WEFT_OF_BOOLS)
WEFT_PREDICATE(logical_or, "Or(a, b)", (V a, V b), V, math::select(a, a, b), WEFT_OF_BOOLS)
WEFT_PREDICATE(logical_not, "Not(a)", (V a), V, !a, WEFT_OF_BOOLS)
#undef WEFT_PREDICATE
#undef WEFT_ORDERS
#undef WEFT_OF_BOOLS
// clang-format on

struct select {
  static constexpr const char* name = "select";
  static constexpr const char* onnx = "Where(a, b, c)";
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
  static constexpr const char* onnx = "cast(a)";
  static constexpr bool cheap = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V x) {
    if constexpr (std::is_same_v<V, symbol>)
      return math::convert(x, dtype_of<To>);
    else if constexpr (std::is_same_v<V, dependence>)
      return math::convert(x);
    else if constexpr (math::exceeds<V, To>)
      return math::nearest_integer<To>(static_cast<std::conditional_t<std::is_same_v<V, double>, double, float>>(x));
    else
      return static_cast<To>(x);
  }
  template <class Upstream, class V, class Y>
  WEFT_HOST_DEVICE static constexpr V gradient(Upstream g, V x, Y) {
    if constexpr (std::is_same_v<V, symbol>)
      return math::convert(g, x.type());
    else if constexpr (std::is_same_v<V, dependence>)
      return math::convert(g);
    else
      return static_cast<V>(g);
  }
};

}  // namespace weft::formula

namespace weft::skeleton {

#define WEFT_ENUMERATOR(name, operands) name,
enum class formula_id : unsigned char {
  other,
  WEFT_FORMULAS(WEFT_ENUMERATOR, WEFT_ENUMERATOR, WEFT_ENUMERATOR) cast,
  greater,
  greater_equal,
  not_equal,
  logical_and,
  logical_or
};
#undef WEFT_ENUMERATOR
#define WEFT_ID(name, operands) \
  template <>                   \
  inline constexpr formula_id id_of_formula<formula::name> = formula_id::name;
WEFT_FORMULAS(WEFT_ID, WEFT_ID, WEFT_ID)
WEFT_ID(greater, 2)
WEFT_ID(greater_equal, 2)
WEFT_ID(not_equal, 2)
WEFT_ID(logical_and, 2)
WEFT_ID(logical_or, 2)
#undef WEFT_ID
template <class To>
inline constexpr formula_id id_of_formula<formula::cast<To>> = formula_id::cast;

}  // namespace weft::skeleton

WEFT_STRICT_END
