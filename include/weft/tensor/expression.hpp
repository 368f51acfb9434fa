// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <type_traits>

#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/mistake.hpp>

namespace weft {

/// The CPU. `cpu{n}` is CPU device n: a set of cores with its own threads.
struct cpu {
  using device_type = cpu;
  int ordinal = 0;
  static constexpr const char* name = "CPU";
};

/// NVIDIA GPUs. `cuda{n}` is the n-th GPU that the process can see.
struct cuda {
  using device_type = cuda;
  int ordinal = 0;
  static constexpr const char* name = "GPU";
};

/// An unevaluated value with a known element type and extents: a tensor, a node, a number, or an operation on such
/// values. Expressions store tensors and nodes as handles and other expressions by value, so they cannot dangle.
template <class Expr>
concept Expression = requires { typename Expr::weft_expression; };

/// A number in an expression. It adopts the element type of the other operand. Its value is data of the kernel, not
/// part of the kernel's type.
template <Element T>
struct literal {
  using weft_expression = void;
  using value_type = T;
  using dims_type = dims<>;
  using device_type = void;
  static constexpr std::size_t operations = 0;
  static constexpr bool symbolic = false;
  T value;
};

/// An elementwise operation on operands that broadcast to `Dims`.
template <class Op, class T, class Dims, class Device, class... Operands>
struct expression;

/// An expression cannot be assigned to an expression of a different type: its type contains its operations. Use `let`
/// or `eval` first.
template <class Assigned, class Dims>
struct expression_is_assigned : mistake<true> {};

/// `condition ? a : b` requires branches of the same type.
template <class A, class B>
struct branches_are_two_expressions : mistake<true> {};

namespace detail {

/// True if an expression with this operation and these operands converts to bool as a whole.
template <class Op, class... Operands>
inline constexpr bool is_truth = false;
template <class X>
constexpr const char* spelling() {
  return __PRETTY_FUNCTION__;
}
constexpr bool is_less(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a < *b;
}
/// True if `?:` converts A to B rather than B to A. If both conversions existed, the compiler would only report an
/// ambiguity. False for operands of an expression, which have fewer operations.
template <class A, class B>
concept ConvertedBranch =
    (!__is_same(A, B)) &&
    (A::operations > B::operations || (A::operations == B::operations && is_less(spelling<A>(), spelling<B>())));

template <class X>
X never();  // after a mistake

template <class A, class B>
struct common_device {
  using type = A;
};
template <class B>
struct common_device<void, B> {
  using type = B;
};

template <class Op, class T, class Dims, class Device, class... Operands>
struct expression_base {
  using weft_expression = void;
  using value_type = T;
  using dims_type = Dims;
  using device_type = Device;
  /// An operation with three operands counts twice, so that an expression has at most one more leaf than operations.
  static constexpr std::size_t operations = (sizeof...(Operands) > 2 ? 2 : 1) + (Operands::operations + ... + 0);
  static constexpr bool symbolic = (Operands::symbolic || ...);

  // Implicit for expressions that can never become a number, so that std::exp(x) prints an explanation; explicit for
  // tensors, so that overloads can distinguish them. Also implicit for comparisons of tensors: `a == b` is a bool as
  // well as a tensor.
  template <class Num>
    requires Arithmetic<Num>
  constexpr explicit((!symbolic || !std::is_same_v<Num, T>) &&
                     !(std::is_same_v<Num, bool> && is_truth<Op, Operands...>)) operator Num() const {
    if constexpr (!symbolic && std::is_same_v<Num, bool> && is_truth<Op, Operands...>) {
      return is_true(static_cast<const expression<Op, T, Dims, Device, Operands...>&>(*this));
    } else {
      static_assert(correct<number_mistake<Dims, symbolic>>,
                    "an expression is not a number: session.eval(x) computes a graph's value; sum(x), mean(x) reduce "
                    "it to one number");
      return Num();
    }
  }

  template <class Op2, class T2, class Dims2, class Device2, class... Operands2>
    requires ConvertedBranch<expression<Op, T, Dims, Device, Operands...>,
                             expression<Op2, T2, Dims2, Device2, Operands2...>>
  constexpr operator expression<Op2, T2, Dims2, Device2, Operands2...>() const {
    using other = expression<Op2, T2, Dims2, Device2, Operands2...>;
    static_assert(
        correct<branches_are_two_expressions<expression<Op, T, Dims, Device, Operands...>, other>>,
        "?: needs two nodes or tensors: c ? let(relu(x)) : let(tanh(x)), or eval; in a graph use select(c, a, b)");
    return never<other>();
  }
};

/// A scalar expression over tensors converts to a number.
template <class Op, class T, class Device, class... Operands>
  requires(!(Operands::symbolic || ...))
struct expression_base<Op, T, dims<>, Device, Operands...> {
  using weft_expression = void;
  using value_type = T;
  using dims_type = dims<>;
  using device_type = Device;
  static constexpr std::size_t operations = (sizeof...(Operands) > 2 ? 2 : 1) + (Operands::operations + ... + 0);
  static constexpr bool symbolic = false;

  /// Evaluates the expression. `eval` is found by argument-dependent lookup in the layer that contains the kernels.
  operator T() const { return eval(static_cast<const expression<Op, T, dims<>, Device, Operands...>&>(*this)); }
};

}  // namespace detail

#define WEFT_EXPRESSION_IS_ASSIGNED                                                                                    \
  "an expression cannot be assigned, since its type contains its operations: use a node, auto h = let(relu(x)), or a " \
  "tensor, auto h = eval(relu(x))"

template <class Op, class T, class Dims, class Device, class A>
struct expression<Op, T, Dims, Device, A> : detail::expression_base<Op, T, Dims, Device, A> {
  A a;
  explicit expression(const A& x) : a(x) {}
  template <class X>
  expression& operator=(const X&) {
    static_assert(correct<expression_is_assigned<X, Dims>>, WEFT_EXPRESSION_IS_ASSIGNED);
    return *this;
  }
};

template <class Op, class T, class Dims, class Device, class A, class B>
struct expression<Op, T, Dims, Device, A, B> : detail::expression_base<Op, T, Dims, Device, A, B> {
  A a;
  B b;
  expression(const A& x, const B& y) : a(x), b(y) {}
  template <class X>
  expression& operator=(const X&) {
    static_assert(correct<expression_is_assigned<X, Dims>>, WEFT_EXPRESSION_IS_ASSIGNED);
    return *this;
  }
};

template <class Op, class T, class Dims, class Device, class A, class B, class C>
struct expression<Op, T, Dims, Device, A, B, C> : detail::expression_base<Op, T, Dims, Device, A, B, C> {
  A a;
  B b;
  C c;
  expression(const A& x, const B& y, const C& z) : a(x), b(y), c(z) {}
  template <class X>
  expression& operator=(const X&) {
    static_assert(correct<expression_is_assigned<X, Dims>>, WEFT_EXPRESSION_IS_ASSIGNED);
    return *this;
  }
};

#undef WEFT_EXPRESSION_IS_ASSIGNED

/// The maximum number of operations in an expression. The operands of a longer expression become nodes or tensors, so
/// that repeating `auto y = x * x` cannot double the length of a type without limit.
inline constexpr std::size_t max_operations = 12;

/// The element type of a tensor, a node or an expression.
template <class Expr>
using value_t = typename Expr::value_type;
/// The extents of a tensor, a node or an expression, a `dims<...>`.
template <class Expr>
using dims_t = typename Expr::dims_type;
/// The kind of device of a tensor, a node or an expression: `cpu` or `cuda`.
template <class Expr>
using device_t = typename Expr::device_type;

}  // namespace weft
