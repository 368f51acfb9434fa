// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/concat.hpp>

/// Block diagonal matrices. Not part of <weft/weft.hpp>.
namespace weft {

/// Blocks must be matrices, with equal leading axes.
template <class A, class B>
struct blocks_are_not_matrices
    : mistake<(A::rank != B::rank || A::rank < 2 || !detail::same_extents(A::spec, B::spec, A::rank - 2))> {};

namespace detail {

template <class T, class To, class First, class... Rest>
auto blocks_on_diagonal(const First& first, const Rest&... rest) {
  shape extents = extents_of(first);
  const std::size_t rows = extents.rank - 2;
  ((extents[rows] += extents_of(rest)[rows], extents[rows + 1] += extents_of(rest)[rows + 1]), ...);
  return call_operation<concat_op, T, To>(extents, {rows, 2}, first, rest...);
}

}  // namespace detail

/// Returns matrices with the operands as blocks on the diagonal and 0 elsewhere (torch.block_diag,
/// scipy.linalg.block_diag): `block_diag(a, b)` of `[m, n]` and `[p, q]` is `[m + p, n + q]`. Leading axes must be
/// equal. All element types.
template <Expression First, Expression... Rest>
[[nodiscard]] auto block_diag(const First& first, const Rest&... rest) {
  using T = value_t<First>;
  using D = dims_t<First>;
  using mistake = first_mistake<blocks_are_not_matrices<D, D>, blocks_are_not_matrices<D, dims_t<Rest>>...,
                                element_types_differ<T, value_t<Rest>>...>;
  static_assert(correct<mistake>,
                "block_diag: takes matrices of one type, with equal leading axes; expand_dims<0>(v) "
                "makes a vector a matrix");
  if constexpr (correct<mistake>) {
    constexpr std::size_t rows = D::rank - 2;
    using Tall = with_extent<D, rows, (extent_of<D, rows>() + ... + extent_of<dims_t<Rest>, rows>())>;
    using To = with_extent<Tall, rows + 1, (extent_of<D, rows + 1>() + ... + extent_of<dims_t<Rest>, rows + 1>())>;
    return detail::blocks_on_diagonal<T, To>(materialize(first), materialize(rest)...);
  } else {
    return detail::after_mistake<T, D>(first, rest...);
  }
}

WEFT_OTHER_CALLS(block_diag);  // takes matrices one by one: block_diag(a, b)

}  // namespace weft
