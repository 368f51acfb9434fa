// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/reshape.hpp>

/// Views in which adjacent axes are one.
namespace weft::detail {

/// D with the axes [Begin, Begin + Count) as one.
template <class D, std::size_t Begin, std::size_t Count, std::uint32_t Later = ((1u << (Count - 1)) - 1) << (Begin + 1)>
using axes_merged =
    with_extent<without_axes<D, Later>, Begin, times_axes<D, (Later | (std::uint32_t{1} << Begin))>(extent<1>)>;

/// Merges adjacent axes, without copying elements: `[n, h, w, c]` becomes `[n, h * w, c]` for axis 1.
template <std::size_t Begin, std::size_t Count = 2, class Expr>
auto merge_axes(const Expr& e) {
  if constexpr (Count == 1) {
    return e;
  } else {
    using D = dims_t<Expr>;
    using To = axes_merged<D, Begin, Count>;
    const auto x = materialize(e);
    shape to = To::spec;
    if constexpr (!Expr::symbolic) {
      to = selected<pick_kept<((1u << (Count - 1)) - 1) << (Begin + 1)>>(To::rank, x.extents());
      for (std::size_t i = 1; i < Count; ++i) to[Begin] *= x.extents()[Begin + i];
    }
    return under_extents<To>(x, to);
  }
}

}  // namespace weft::detail
