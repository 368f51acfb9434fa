#pragma once

#include <weft/device/cpu/math.hpp>
#include <weft/ops/dependence.hpp>
#include <weft/ops/symbol.hpp>

WEFT_STRICT_BEGIN

/// The formulas of the elementwise operations. A formula is written once, over any kind of value: elements in a
/// kernel's registers, or symbols when its gradient is differentiated again. Operations of one operand have
///
///     apply(x) -> y          gradient(g, x, y) -> dx
///
/// those of two `apply(a, b)`, `gradient_a(g, a, b, y)` and `gradient_b(g, a, b, y)`: g is the gradient that arrives, y
/// the result. An operation that says `floating_only` refuses integers, one that says `predicate` yields bool. Integers
/// wrap around, as in TensorFlow.
///
/// A user's own operation is such a struct, with a name, and is applied by `elementwise<op>(x)`. Its formulas use the
/// operators, `V(0.5)` for numbers, and the functions of `math`; no branches, but `math::select`.
/// A file that nvcc compiles wants them marked WEFT_HOST_DEVICE, or constexpr with `--expt-relaxed-constexpr`; that
/// they are not is an error there.
namespace weft::formula {

struct add {
  static constexpr const char* name = "add";
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
/// Of integers towards 0; the smallest by -1 is itself, as it is negated. Throws invalid_argument where integers are
/// divided by 0. On a GPU, where nothing can be thrown, that is 0.
struct divide {
  static constexpr const char* name = "divide";
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
    throw error(error_code::invalid_argument, name, "integers are divided by zero");
#else
    return 0;
#endif
  }
};
struct negate {
  static constexpr const char* name = "negate";
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return static_cast<V>(-wrapping(x));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V) {
    return -g;
  }
};
struct abs {
  static constexpr const char* name = "abs";
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::abs(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return g * math::sign(x);
  }
};
/// -1, 0 or 1; its gradient is 0 everywhere.
struct sign {
  static constexpr const char* name = "sign";
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::sign(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V) {
    return g * V(0);
  }
};
/// The largest integer not above x; its gradient is 0 everywhere.
struct floor {
  static constexpr const char* name = "floor";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::floor(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V) {
    return g * V(0);
  }
};
struct square {
  static constexpr const char* name = "square";
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return static_cast<V>(wrapping(x) * wrapping(x));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return (g + g) * x;
  }
};
struct sqrt {
  static constexpr const char* name = "sqrt";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::sqrt(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {
    return V(0.5) * g / y;
  }
};
struct exp {
  static constexpr const char* name = "exp";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::exp(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {
    return g * y;
  }
};
struct log {
  static constexpr const char* name = "log";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::log(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V x, V) {
    return g / x;
  }
};
/// a to the power b. As in TensorFlow, the gradient with respect to b is 0 where a is not positive.
struct pow {
  static constexpr const char* name = "pow";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return math::pow(a, b);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V a, V b, V) {
    // 0 where b is, at a = 0 too, where a^-1 is inf: then the power is of 1, so that its own gradients are finite.
    const auto constant = b == V(0);
    return math::select(constant, V(0), g * b * math::pow(math::select(constant, V(1), a), b - V(1)));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V a, V, V y) {
    const auto positive = a > V(0);
    return math::select(positive, g * y * math::log(math::select(positive, a, V(1))), V(0));
  }
};
struct tanh {
  static constexpr const char* name = "tanh";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::tanh(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {
    return g * (V(1) - y * y);
  }
};
struct sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::sigmoid(x);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {
    return g * y * (V(1) - y);
  }
};
struct relu {
  static constexpr const char* name = "relu";
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x) {
    return math::maximum(x, V(0));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient(V g, V, V y) {  // of y, so that x is not kept but overwritten in place
    return math::select(y > V(0), g, V(0));
  }
};
/// Where the operands are equal the first gets the gradient, and where one is NaN the second, as in TensorFlow.
struct maximum {
  static constexpr const char* name = "maximum";
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
struct minimum {
  static constexpr const char* name = "minimum";
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
  static constexpr bool predicate = true, orders = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return a < b;
  }
};
struct less_equal {
  static constexpr const char* name = "less_equal";
  static constexpr bool predicate = true, orders = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return a <= b;
  }
};
struct greater {
  static constexpr const char* name = "greater";
  static constexpr bool predicate = true, orders = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return a > b;
  }
};
struct greater_equal {
  static constexpr const char* name = "greater_equal";
  static constexpr bool predicate = true, orders = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return a >= b;
  }
};
struct equal {
  static constexpr const char* name = "equal";
  static constexpr bool predicate = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return a == b;
  }
};
struct not_equal {
  static constexpr const char* name = "not_equal";
  static constexpr bool predicate = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V a, V b) {
    return !(a == b);
  }
};
struct logical_and {
  static constexpr const char* name = "logical_and";
  static constexpr bool predicate = true;
  static constexpr bool of_bools = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return math::select(a, b, a);
  }
};
struct logical_or {
  static constexpr const char* name = "logical_or";
  static constexpr bool predicate = true;
  static constexpr bool of_bools = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a, V b) {
    return math::select(a, a, b);
  }
};
struct logical_not {
  static constexpr const char* name = "logical_not";
  static constexpr bool predicate = true;
  static constexpr bool of_bools = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V a) {
    return !a;
  }
};
struct select {
  static constexpr const char* name = "select";
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
/// Conversion of the element type. Storage-only types go through float.
template <class To>
struct cast {
  static constexpr const char* name = "cast";
  template <class V>
  WEFT_HOST_DEVICE static constexpr auto apply(V x) {
    if constexpr (std::is_same_v<V, symbol>)
      return convert(x, dtype_of<To>);
    else if constexpr (std::is_same_v<V, dependence>)
      return x;
    else
      return static_cast<To>(x);
  }
  template <class Upstream, class V, class Y>
  WEFT_HOST_DEVICE static constexpr V gradient(Upstream g, V x, Y) {
    if constexpr (std::is_same_v<V, symbol>)
      return convert(g, x.type());
    else if constexpr (std::is_same_v<V, dependence>)
      return g;
    else
      return static_cast<V>(g);
  }

 private:
  WEFT_HOST_DEVICE static symbol convert(symbol x, dtype to) { return math::convert(x, to); }
};

}  // namespace weft::formula

WEFT_STRICT_END
