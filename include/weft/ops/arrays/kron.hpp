// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/elementwise/functions.hpp>

namespace weft {

/// Returns the Kronecker product (numpy.kron, torch.kron): `kron(a, b)` of `[m, n]` and `[p, q]` is `[m * p, n * q]`,
/// with blocks `a(i, j) * b`. Takes arrays of numbers with equal types and ranks of at most 4. Not part of
/// <weft/weft.hpp>.
template <Expression A, Expression B>
[[nodiscard]] auto kron(const A& a, const B& b);

/// The Kronecker product takes numbers of one type, and arrays of equal rank, at most 4.
template <class A, class B>
struct kron_ranks_differ : mistake<A::rank != B::rank || (A::rank > max_rank / 2)> {};

namespace detail {

template <class A, class B, class Pairs, class Axes>
struct kron_extents;
template <class A, class B, std::size_t... Index, std::size_t... K>
struct kron_extents<A, B, indices<Index...>, indices<K...>> {
  template <class D, std::size_t Here, bool Odd>
  static constexpr auto extent() {
    if constexpr (Here % 2 == Odd)
      return extent_at<D, Here / 2>::value;
    else
      return 1;
  }
  using left = dims<extent<A, Index, false>()...>;
  using right = dims<extent<B, Index, true>()...>;
  using product = dims<(extent_of<A, K>() * extent_of<B, K>())...>;
};

}  // namespace detail

template <Expression A, Expression B>
auto kron(const A& a, const B& b) {
  using D = dims_t<A>;
  using mistake = first_mistake<element_types_differ<value_t<A>, value_t<B>>, elements_not_numeric<value_t<A>>,
                                kron_ranks_differ<D, dims_t<B>>>;
  static_assert(correct<mistake>, "kron: takes two arrays of numbers of one type and equal rank, at most 4");
  if constexpr (correct<mistake>) {
    using detail::make_indices;
    using extents = detail::kron_extents<D, dims_t<B>, typename make_indices<2 * D::rank>::type,
                                         typename make_indices<D::rank>::type>;
    return reshape<typename extents::product>(reshape<typename extents::left>(a) * reshape<typename extents::right>(b));
  } else {
    return detail::after_mistake<value_t<A>, D>(a, b);
  }
}

}  // namespace weft
