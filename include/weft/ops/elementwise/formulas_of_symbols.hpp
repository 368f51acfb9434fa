// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/dependence.hpp>
#include <weft/ops/elementwise/formulas.hpp>
#include <weft/ops/symbol.hpp>

/// The formulas of elementwise operations on symbols and dependences, for gradients.
namespace weft {

// Kernels use formulas too, but never evaluate them on symbols.
WEFT_COLD_BEGIN
WEFT_QUIET_BEGIN

#define WEFT_OPERATOR_1(op, name)                                                                              \
  WEFT_HOST_DEVICE inline symbol operator op(symbol a) { return detail::apply_primitive(primitive::name, a); } \
  WEFT_HOST_DEVICE constexpr dependence operator op(dependence a) { return detail::depend(primitive::name, a); }
#define WEFT_OPERATOR_2(op, name)                                                 \
  WEFT_HOST_DEVICE inline symbol operator op(symbol a, symbol b) {                \
    return detail::apply_primitive(primitive::name, a, b);                        \
  }                                                                               \
  WEFT_HOST_DEVICE constexpr dependence operator op(dependence a, dependence b) { \
    return detail::depend(primitive::name, a, b);                                 \
  }
#define WEFT_OTHER_OPERATOR(op, as)                                             \
  WEFT_HOST_DEVICE inline symbol operator op(symbol a, symbol b) { return as; } \
  WEFT_HOST_DEVICE constexpr dependence operator op(dependence a, dependence b) { return as; }
WEFT_OPERATOR_2(+, add)
WEFT_OPERATOR_2(-, subtract)
WEFT_OPERATOR_2(*, multiply)
WEFT_OPERATOR_2(/, divide)
WEFT_OPERATOR_1(-, negate)
WEFT_OPERATOR_2(<, less)
WEFT_OPERATOR_2(<=, less_equal)
WEFT_OPERATOR_2(==, equal)
WEFT_OPERATOR_1(!, logical_not)
WEFT_OTHER_OPERATOR(>, b < a)
WEFT_OTHER_OPERATOR(>=, b <= a)
WEFT_OTHER_OPERATOR(!=, !(a == b))
#undef WEFT_OPERATOR_1
#undef WEFT_OPERATOR_2
#undef WEFT_OTHER_OPERATOR

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
#define WEFT_SPECIAL(name)                                                 \
  WEFT_HOST_DEVICE inline symbol name(symbol x, symbol y) {                \
    return weft::detail::apply_primitive(primitive::name, x, y);           \
  }                                                                        \
  WEFT_HOST_DEVICE constexpr dependence name(dependence x, dependence y) { \
    return weft::detail::depend(primitive::name, x, y);                    \
  }
WEFT_SPECIAL(multiply_no_nan)
WEFT_SPECIAL(xdivy)
#undef WEFT_SPECIAL
/// Second gradients compute exp_of_minus_square from the rounded x^2.
WEFT_HOST_DEVICE inline symbol exp_of_minus_square(symbol x) { return exp(-(x * x)); }
WEFT_HOST_DEVICE constexpr dependence exp_of_minus_square(dependence x) { return exp(-(x * x)); }
WEFT_HOST_DEVICE inline symbol convert(symbol x, dtype to) {
  return weft::detail::apply_primitive(primitive::convert, &x, 1, to);
}

WEFT_HOST_DEVICE constexpr dependence convert(dependence x) { return weft::detail::depend(primitive::convert, x); }

WEFT_QUIET_END

}  // namespace math
WEFT_COLD_END

namespace detail {

/// Throws invalid_argument. On a GPU, which cannot throw, the quotient is 0.
template <class V>
[[gnu::noinline, gnu::cold]] WEFT_HOST_DEVICE V divided_by_zero() {
#if !defined(__CUDA_ARCH__)
  throw error(error_code::invalid_argument, "divide", "integer division by zero");
#else
  return 0;
#endif
}

}  // namespace detail
}  // namespace weft

WEFT_STRICT_BEGIN

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
