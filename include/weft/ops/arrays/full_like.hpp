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
  using T = std::conditional_t<std::is_void_v<Type>, value_t<Expr>, Type>;
  using D = dims_t<Expr>;
  static_assert(correct<filled_with_no_number<D, Num>>,
                "full_like(x, number): broadcast_to<dims<...>>(y) repeats a node or a tensor y");
  if constexpr (!correct<filled_with_no_number<D, Num>>) {
    return detail::same_after_mistake(e);
  } else {
    const auto x = materialize(e);
    if constexpr (Expr::symbolic)
      return detail::filled<T, D>(*x.erased().builder(), static_cast<T>(number));
    else
      return broadcast_to<D>(tensor<T>(static_cast<T>(number)), x.extents());
  }
}

}  // namespace weft
