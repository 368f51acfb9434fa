// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/elementwise/more_formulas.hpp>
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

}  // namespace weft::detail
