// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/exact.hpp>
#include <weft/ops/elementwise/formulas_of_symbols.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/symbol.hpp>

/// The numbers and functions of optimizer formulas.
namespace weft {

/// A hyperparameter must be a single number.
template <class Dims>
struct hyperparameter_is_not_scalar : mistake<Dims::rank != 0> {};

/// The ranges of hyperparameters. All numbers must be finite and at least 0.
enum class hyperparameter_range : unsigned char { at_least_zero, up_to_one, below_one };

/// An entry of an optimizer's `limits`, which lists the hyperparameters in order.
struct hyperparameter_limit {
  const char* name;
  hyperparameter_range range = hyperparameter_range::at_least_zero;
};

/// An optimizer's formula combines hyperparameters or constants with each other before one of them has a type to round
/// to.
template <class T>
struct number_has_no_type : mistake<true> {};

namespace detail {

struct untyped_number {
  template <class T>
  constexpr operator exact<T>() const {
    static_assert(
        correct<number_has_no_type<T>>,
        "an expression of only hyperparameters and constants has no element type; write V(1) - beta, V(2) * beta");
    return exact<T>(0);
  }
};

}  // namespace detail

/// A hyperparameter must be a number, not text.
template <class X>
struct hyperparameter_is_not_a_number : mistake<true> {};

/// A number that controls an optimizer: a constant or, as a scalar of the graph, a value that each step computes.
class hyperparameter {
 public:
  WEFT_HOST_DEVICE constexpr hyperparameter(double number) : value_(number) {}
  /// Takes a scalar of the graph and converts it to double.
  template <Expression Expr>
  hyperparameter(const Expr& scalar) {
    using mistake = first_mistake<value_not_in_a_graph<Expr>, hyperparameter_is_not_scalar<dims_t<Expr>>>;
    static_assert(correct<mistake>, "an optimizer's hyperparameter must be a number, or a scalar of the graph");
    if constexpr (correct<mistake>) value_ = let(cast<double>(scalar)).erased();
  }

  template <std::size_t Count>
  constexpr hyperparameter(const char (&)[Count]) {
    static_assert(correct<hyperparameter_is_not_a_number<char[Count]>>,
                  "an optimizer's hyperparameter must be a number, or a scalar of the graph");
  }

  constexpr bool is_number() const { return value_.is_number(); }
  constexpr double number() const { return value_.number(); }
  symbol node() const { return value_; }

  // Formulas receive hyperparameters as numbers.
  WEFT_HOST_DEVICE constexpr explicit operator double() const { return value_.number(); }
  WEFT_HOST_DEVICE constexpr explicit operator float() const { return static_cast<float>(value_.number()); }
  template <class T>
  WEFT_HOST_DEVICE WEFT_INLINE operator exact<T>() const {
    return exact<T>(static_cast<T>(*this));
  }
#define WEFT_UNTYPED(name) \
  friend constexpr detail::untyped_number name(const hyperparameter&, const hyperparameter&) { return {}; }
  WEFT_UNTYPED(operator+)
  WEFT_UNTYPED(operator-)
  WEFT_UNTYPED(operator*)
  WEFT_UNTYPED(operator/)
#undef WEFT_UNTYPED

 private:
  symbol value_;
};

namespace detail {
/// Throws invalid_argument if a constant hyperparameter exceeds its limit. Values of the graph are not checked.
void check_limits(const char* optimizer, const hyperparameter* given, const hyperparameter_limit* limits,
                  std::size_t count);
}  // namespace detail

/// An optimizer's formula uses a function that processors, compilers and GPUs round differently.
template <class T>
struct function_not_exact : mistake<true> {};

// The functions that a formula may use are friends of `exact`. Other elementwise functions are rejected, both as
// `exp(x)` and as `math::exp(x)`.
namespace detail {
template <class T>
exact<T> refuse_function(exact<T> x) {
  static_assert(correct<function_not_exact<T>>,
                "an optimizer's formula can use only + - * /, sqrt(x), abs(x), max(x, y), min(x, y) and comparisons, "
                "which all processors round alike");
  return x;
}
}  // namespace detail
#define WEFT_REFUSED(name, operands)          \
  template <class T, class... More>           \
  exact<T> name(exact<T> x, const More&...) { \
    return refuse_function(x);                \
  }
namespace detail::refused {
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_REFUSED, WEFT_REFUSED)
}
#undef WEFT_REFUSED
#define WEFT_FUNCTION(name, operands) using weft::detail::refused::name;
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_FUNCTION, WEFT_FUNCTION)
namespace math {
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_FUNCTION, WEFT_NO_ROW)
}
#undef WEFT_FUNCTION

}  // namespace weft
