// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/lowering.hpp>

namespace weft::detail {

/// Turns a tensor into a constant of the graph; nodes stay nodes.
template <class Expr>
auto in_graph(op_builder& where, const Expr& x) {
  if constexpr (Expr::symbolic)
    return let(x);
  else
    return make_node<value_t<Expr>, dims_t<Expr>, device_t<Expr>>(
        {&where, where.record_constant(x.data(), {dtype_of<value_t<Expr>>, dims_t<Expr>::spec}, x.extents()).id()});
}

}  // namespace weft::detail
