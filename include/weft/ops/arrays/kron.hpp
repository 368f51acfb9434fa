// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/merge_axes.hpp>
#include <weft/ops/elementwise/functions.hpp>

namespace weft {

/// The Kronecker product takes numbers of one type, and arrays of equal rank, at most 4.
template <class A, class B>
struct kron_ranks_differ : mistake<A::rank != B::rank || (A::rank > max_rank / 2)> {};

namespace detail {

/// The axes of a factor, each in front of, or after, an axis of extent 1.
template <bool After>
struct pick_apart {
  static constexpr std::size_t axis(std::size_t i) { return i % 2 == After ? i / 2 : max_rank; }
};
/// Merges each pair of axes from `Axis` on.
template <std::size_t Axis = 0, class X>
auto merge_pairs(const X& x) {
  if constexpr (Axis == dims_t<X>::rank)
    return x;
  else
    return merge_pairs<Axis + 1>(merge_axes<Axis>(x));
}

}  // namespace detail

/// Returns the Kronecker product (numpy.kron, torch.kron): `kron(a, b)` of `[m, n]` and `[p, q]` is `[m * p, n * q]`,
/// with blocks `a(i, j) * b`. Takes arrays of numbers with equal types and ranks of at most 4. Not part of
/// <weft/weft.hpp>.
template <Expression A, Expression B>
[[nodiscard]] auto kron(const A& a, const B& b) {
  using D = dims_t<A>;
  using mistake = first_mistake<element_types_differ<value_t<A>, value_t<B>>, elements_not_numeric<value_t<A>>,
                                kron_ranks_differ<D, dims_t<B>>>;
  static_assert(correct<mistake>, "kron: takes two arrays of numbers of one type and equal rank, at most 4");
  if constexpr (correct<mistake>) {
    constexpr std::size_t rank = 2 * D::rank;
    return detail::merge_pairs(materialize(detail::under_axes<detail::pick_apart<false>, rank>(a) *
                                           detail::under_axes<detail::pick_apart<true>, rank>(b)));
  } else {
    return detail::after_mistake<value_t<A>, D>(a, b);
  }
}

}  // namespace weft
