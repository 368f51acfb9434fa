// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/math.hpp>
#include <weft/tensor/dtype.hpp>

WEFT_STRICT_BEGIN

/// A skeleton is an expression whose leaves are replaced by numbered arguments. Its type names the kernel. It contains
/// operations and element types but no extents or names, so a hundred layers of different sizes share one kernel, and
/// device compilers that cannot parse names in kernel types never encounter them.
///
/// Every function here is generic over a context `C`, which defines a value: an element in a register inside a kernel's
/// loop, or a symbol when a gradient is differentiated again.
namespace weft::skeleton {

template <class C, class T>
using value_in = typename C::template value<T>;

/// The gradients of an operation with several operands.
template <class V>
struct pair {
  V a, b;
};

template <int Index, class T>
struct argument {
  using value_type = T;
  static constexpr bool differentiable = is_differentiable<T>;
  template <class C>
  struct tape {
    value_in<C, T> y;
  };
  template <class C>
  WEFT_HOST_DEVICE static constexpr value_in<C, T> eval(const C& c) {
    return c.template argument<Index, T>();
  }
  template <class C>
  WEFT_HOST_DEVICE static constexpr tape<C> forward(const C& c) {
    return {eval(c)};
  }
  template <class C, class Sink>
  WEFT_HOST_DEVICE static constexpr void backward(const tape<C>&, value_in<C, T> g, Sink& sink) {
    sink.template take<Index, T>(g);
  }
};

template <int Index, class T>
struct constant {
  using value_type = T;
  static constexpr bool differentiable = false;
  template <class C>
  struct tape {
    value_in<C, T> y;
  };
  template <class C>
  WEFT_HOST_DEVICE static constexpr value_in<C, T> eval(const C& c) {
    return c.template constant<Index, T>();
  }
  template <class C>
  WEFT_HOST_DEVICE static constexpr tape<C> forward(const C& c) {
    return {eval(c)};
  }
};

/// True if a context computes a part without a gradient as a whole: symbols do, in a kernel for that part.
template <class C, class S>
concept taken_whole = !S::differentiable && requires(const C& c) { c.template part<S>(); };

/// True unless an operation declares that it has no gradient.
template <class Op>
inline constexpr bool may_differentiate = !requires { Op::not_differentiable; };

template <class Op, class T, class... S>
struct apply;

template <class Op, class T, class A>
struct apply<Op, T, A> {
  using value_type = T;
  static constexpr bool differentiable = may_differentiate<Op> && is_differentiable<T> && A::differentiable;
  template <class C>
  struct tape {
    typename A::template tape<C> a;
    value_in<C, T> y;
  };
  template <class C>
  WEFT_HOST_DEVICE static constexpr value_in<C, T> eval(const C& c) {
    if constexpr (taken_whole<C, apply>)
      return c.template part<apply>();
    else
      return value_in<C, T>(Op::apply(A::eval(c)));
  }
  template <class C>
  WEFT_HOST_DEVICE static constexpr tape<C> forward(const C& c) {
    if constexpr (taken_whole<C, apply>) {
      return {{}, eval(c)};
    } else {
      // In place: compilers keep a copied tape in memory, and do not vectorize loops over it.
      tape<C> t{A::forward(c), {}};
      t.y = value_in<C, T>(Op::apply(t.a.y));
      return t;
    }
  }
  template <class C, class Sink>
  WEFT_HOST_DEVICE static constexpr void backward(const tape<C>& t, value_in<C, T> g, Sink& sink) {
    if constexpr (differentiable) A::template backward<C>(t.a, Op::gradient(g, t.a.y, t.y), sink);
  }
};

template <class Op, class T, class A, class B>
struct apply<Op, T, A, B> {
  using value_type = T;
  static constexpr bool differentiable =
      may_differentiate<Op> && is_differentiable<T> && (A::differentiable || B::differentiable);
  template <class C>
  struct tape {
    typename A::template tape<C> a;
    typename B::template tape<C> b;
    value_in<C, T> y;
  };
  template <class C>
  WEFT_HOST_DEVICE static constexpr value_in<C, T> eval(const C& c) {
    if constexpr (taken_whole<C, apply>)
      return c.template part<apply>();
    else
      return value_in<C, T>(Op::apply(A::eval(c), B::eval(c)));
  }
  template <class C>
  WEFT_HOST_DEVICE static constexpr tape<C> forward(const C& c) {
    if constexpr (taken_whole<C, apply>) {
      return {{}, {}, eval(c)};
    } else {
      tape<C> t{A::forward(c), B::forward(c), {}};
      t.y = value_in<C, T>(Op::apply(t.a.y, t.b.y));
      return t;
    }
  }
  template <class C, class Sink>
  WEFT_HOST_DEVICE static constexpr void backward(const tape<C>& t, value_in<C, T> g, Sink& sink) {
    if constexpr (differentiable) {
      if constexpr (A::differentiable) A::template backward<C>(t.a, Op::gradient_a(g, t.a.y, t.b.y, t.y), sink);
      if constexpr (B::differentiable) B::template backward<C>(t.b, Op::gradient_b(g, t.a.y, t.b.y, t.y), sink);
    }
  }
};

/// An operation of three operands, the first of which is a condition.
template <class Op, class T, class P, class A, class B>
struct apply<Op, T, P, A, B> {
  using value_type = T;
  static constexpr bool differentiable =
      may_differentiate<Op> && is_differentiable<T> && (A::differentiable || B::differentiable);
  template <class C>
  struct tape {
    typename P::template tape<C> p;
    typename A::template tape<C> a;
    typename B::template tape<C> b;
    value_in<C, T> y;
  };
  template <class C>
  WEFT_HOST_DEVICE static constexpr value_in<C, T> eval(const C& c) {
    if constexpr (taken_whole<C, apply>)
      return c.template part<apply>();
    else
      return value_in<C, T>(Op::apply(P::eval(c), A::eval(c), B::eval(c)));
  }
  template <class C>
  WEFT_HOST_DEVICE static constexpr tape<C> forward(const C& c) {
    if constexpr (taken_whole<C, apply>) {
      return {{}, {}, {}, eval(c)};
    } else {
      tape<C> t{P::forward(c), A::forward(c), B::forward(c), {}};
      t.y = value_in<C, T>(Op::apply(t.p.y, t.a.y, t.b.y));
      return t;
    }
  }
  template <class C, class Sink>
  WEFT_HOST_DEVICE static constexpr void backward(const tape<C>& t, value_in<C, T> g, Sink& sink) {
    if constexpr (differentiable) {
      if constexpr (A::differentiable) A::template backward<C>(t.a, Op::gradient_a(g, t.p.y, t.a.y, t.b.y, t.y), sink);
      if constexpr (B::differentiable) B::template backward<C>(t.b, Op::gradient_b(g, t.p.y, t.a.y, t.b.y, t.y), sink);
    }
  }
};

/// The arguments and constants of a skeleton, in order.
struct signature {
  std::size_t arguments = 0, constants = 0, operations = 0;
  std::uint32_t reached = 0;   ///< the arguments that a gradient reaches, one bit each; excludes arguments that occur
                               ///< only in conditions
  std::uint32_t refused = 0;   ///< the arguments that pass through an operation declared without a gradient
  std::uint32_t elements = 0;  ///< the element types of the arguments and of all results, one bit each
  bool memory_bound = true;    ///< all operations are cheap: computing them takes less time than loading the operands
  dtype types[16]{};
  dtype constant_types[16]{};
};

template <int Index, class T>
constexpr void describe(argument<Index, T>*, signature& s) {
  s.types[Index] = dtype_of<T>;
  s.elements |= std::uint32_t{1} << static_cast<unsigned>(dtype_of<T>);
  if (s.arguments <= Index) s.arguments = Index + 1;
}
template <int Index, class T>
constexpr void describe(constant<Index, T>*, signature& s) {
  s.constant_types[Index] = dtype_of<T>;
  if (s.constants <= Index) s.constants = Index + 1;
}
template <class Op, class T, class... S>
constexpr void describe(apply<Op, T, S...>*, signature& s) {
  ++s.operations;
  s.elements |= std::uint32_t{1} << static_cast<unsigned>(dtype_of<T>);
  if constexpr (requires { Op::cheap; }) s.memory_bound = s.memory_bound && Op::cheap;
  (describe(static_cast<S*>(nullptr), s), ...);
}

template <int Index, class T>
constexpr std::uint32_t reached(argument<Index, T>*) {
  return std::uint32_t{is_differentiable<T>} << Index;
}
template <int Index, class T>
constexpr std::uint32_t reached(constant<Index, T>*) {
  return 0;
}
template <class Op, class T, class... S>
constexpr std::uint32_t reached(apply<Op, T, S...>*) {
  return apply<Op, T, S...>::differentiable ? (reached(static_cast<S*>(nullptr)) | ...) : 0;
}

template <int Index, class T>
constexpr std::uint32_t refused(argument<Index, T>*, bool by_operation) {
  return std::uint32_t{by_operation && is_differentiable<T>} << Index;
}
template <int Index, class T>
constexpr std::uint32_t refused(constant<Index, T>*, bool) {
  return 0;
}
template <class Op, class T, class... S>
constexpr std::uint32_t refused(apply<Op, T, S...>*, bool by_operation) {
  if (!is_differentiable<T>) return 0;
  return (refused(static_cast<S*>(nullptr), by_operation || !may_differentiate<Op>) | ...);
}

/// Identifies one of Weft's own formulas (ops/elementwise/formulas.hpp); 0 stands for any other formula, whatever its
/// name.
enum class formula_id : unsigned char;
template <class Op>
inline constexpr formula_id id_of_formula{};

}  // namespace weft::skeleton

WEFT_STRICT_END
