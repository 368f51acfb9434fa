// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/tensor/fill.hpp>

namespace weft {

/// Returns an array of one number with the operand's extents, and its element type or another one (numpy.full_like,
/// torch.full_like): `full_like(x, 0.5f)`, `full_like<std::int32_t>(x, -1)`. Does not compute the operand. Not part of
/// <weft/weft.hpp>.
template <class Type = void, Expression Expr, class Num>
[[nodiscard]] auto full_like(const Expr& e, Num number) {
  using D = dims_t<Expr>;
  static_assert(correct<filled_with_no_number<D, Num>>,
                "full_like(x, number): broadcast_to<dims<...>>(y) repeats a node or a tensor y");
  if constexpr (correct<filled_with_no_number<D, Num>>)
    return detail::filled_like<Type>(e, number);
  else
    return detail::same_after_mistake(e);
}

}  // namespace weft
