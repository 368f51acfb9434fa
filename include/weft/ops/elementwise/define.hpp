// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/fused_operations.hpp>
#include <weft/ops/primitives.hpp>

/// Defines elementwise functions outside of the list in ops/elementwise/formulas.hpp, whose rows every program reads.
/// Formulas apply the functions of the list to symbols as primitives. The functions here are instead recorded as nodes
/// of their own when a gradient is differentiated; their kernels are compiled only for formulas that do so.
namespace weft::detail {

WEFT_COLD_BEGIN

inline symbol record_formula(const fused* (*of_float)(), const fused* (*of_double)(), symbol* operands,
                             std::size_t count) {
  op_builder* where = nullptr;
  dtype type{};
  for (std::size_t i = 0; i < count; ++i)
    if (!operands[i].is_number()) where = operands[i].builder(), type = operands[i].type();
  for (std::size_t i = 0; i < count; ++i)
    if (operands[i].is_number()) operands[i] = as_scalar(*where, operands[i].number(), type);
  return record_part(*(type == dtype::float64 ? of_double : of_float)(), operands, nullptr);
}

WEFT_QUIET_BEGIN

/// Applies a formula to symbols.
template <class Op, class... X>
WEFT_HOST_DEVICE symbol call_formula(X... x) {
  if ((x.is_number() && ...)) return symbol(Op::apply(x.number()...));
  symbol operands[] = {x...};
  return record_formula(primitive_kernel<Op, float>, primitive_kernel<Op, double>, operands, sizeof...(X));
}

WEFT_QUIET_END
WEFT_COLD_END

/// What a value depends on that is computed from others by no primitive.
WEFT_HOST_DEVICE constexpr dependence joined(dependence a, dependence b) {
  return dependence(a.mask | b.mask, a.by | b.by);
}

template <class V>
inline constexpr bool is_dependence = std::is_same_v<V, dependence>;

}  // namespace weft::detail

/// Let formulas apply `math::op`, a function of float and double, to symbols; formula::op follows.
#define WEFT_SYMBOLS_1(op)                                             \
  namespace formula {                                                  \
  struct op;                                                           \
  }                                                                    \
  namespace math {                                                     \
  template <std::same_as<symbol> V>                                    \
  WEFT_HOST_DEVICE V op(V x) {                                         \
    return weft::detail::call_formula<formula::op>(x);                 \
  }                                                                    \
  WEFT_HOST_DEVICE constexpr dependence op(dependence x) { return x; } \
  }
#define WEFT_SYMBOLS_2(op)                                                                                    \
  namespace formula {                                                                                         \
  struct op;                                                                                                  \
  }                                                                                                           \
  namespace math {                                                                                            \
  template <std::same_as<symbol> V>                                                                           \
  WEFT_HOST_DEVICE V op(V a, V b) {                                                                           \
    return weft::detail::call_formula<formula::op>(a, b);                                                     \
  }                                                                                                           \
  WEFT_HOST_DEVICE constexpr dependence op(dependence a, dependence b) { return weft::detail::joined(a, b); } \
  }

/// Define formula::op, whose value is `math::op`; see WEFT_FORMULA_1. The further arguments are the formulas for which
/// symbols need kernels of their own (WEFT_SYMBOLS_1) in gradients.
#define WEFT_NODE_FORMULA_1(op, form, is_cheap, derivative, ...)         \
  WEFT_STRICT_BEGIN                                                      \
  namespace formula {                                                    \
  WEFT_FORMULA_1(op, form, is_cheap, reals, math::op(x), derivative,     \
                 using calls = weft::detail::formula_list<__VA_ARGS__>;) \
  }                                                                      \
  WEFT_STRICT_END
#define WEFT_NODE_FORMULA_2(op, form, is_cheap, elements, derivative_a, derivative_b, ...) \
  WEFT_STRICT_BEGIN                                                                        \
  namespace formula {                                                                      \
  WEFT_FORMULA_2(op, form, is_cheap, elements, math::op(a, b), derivative_a, derivative_b, \
                 using calls = weft::detail::formula_list<__VA_ARGS__>;)                   \
  }                                                                                        \
  WEFT_STRICT_END
