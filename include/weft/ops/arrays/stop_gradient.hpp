// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/aliases.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

/// Returns the operand, with no gradient (tf.stop_gradient).
template <Expression Expr>
[[nodiscard]] auto stop_gradient(const Expr& e) {
  if constexpr (Expr::symbolic) {
    const symbol x = let(e).erased();
    return detail::node_of<Expr>(record<stop_gradient_op>({x}, x.info()));
  } else {
    return eval(e);
  }
}

}  // namespace weft
