// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/index/gather.hpp>

/// Selection by index vectors. Not part of <weft/weft.hpp>.
namespace weft {

namespace detail {

constexpr bool index_vectors_fit(const shape& x, const shape& indices, int batch_dims) {
  const std::size_t batch = batch_dims < 0 ? max_rank : static_cast<std::size_t>(batch_dims);
  if (indices.rank <= batch || !same_extents(x, indices, batch)) return false;
  const std::int64_t depth = indices[indices.rank - 1];
  return depth > 0 && depth + static_cast<std::int64_t>(batch) <= static_cast<std::int64_t>(x.rank);
}

/// The extents of slices by index vectors of the extents At.
template <class D, class At, std::size_t BatchDims>
struct by_vectors {
  static constexpr std::size_t depth = static_cast<std::size_t>(At::spec[At::rank - 1]);
  static constexpr std::size_t lists = At::rank - 1;
  /// Index vectors replace the first indexed axis.
  struct axes {
    static constexpr std::size_t axis(std::size_t i) {
      const std::size_t axis = axes_gathered<D::rank, lists, BatchDims, BatchDims>::axis(i);
      return i < BatchDims || axis >= D::rank ? axis : axis + depth - 1;
    }
  };
  static constexpr std::size_t rank = D::rank - depth + lists - BatchDims;
  using type = select<joined_dims<D, At>, rank, axes>;

  template <class X, class Indices>
  static shape extents(const X& x, const Indices& indices) {
    return selected<axes>(rank, extents_of(x), extents_of(indices));
  }
};

}  // namespace detail

/// Index vectors are the last axis of the indices: 1 to rank(x) integers. The batch extents must be those of x.
template <class Dims, class Indices, int BatchDims = 0>
struct index_vectors_do_not_fit : mistake<!detail::index_vectors_fit(Dims::spec, Indices::spec, BatchDims)> {};

/// Returns elements or slices of x by index vectors, which are the last axis of the indices (tf.gather_nd): for x `[n,
/// m, d]` and indices `[k, 2]`, `[k, d]`: `x[indices[i, 0], indices[i, 1]]`. With batch axes, x `[b, n, m]` and indices
/// `[b, k, 2]`, `gather_nd<1>(x, indices)` is `[b, k]`. For indices, gradients and errors, see `gather`.
template <int BatchDims = 0, Expression Expr, Expression Indices>
[[nodiscard]] auto gather_nd(const Expr& e, const Indices& indices) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = first_mistake<row_indices_not_integers<value_t<Indices>>,
                                index_vectors_do_not_fit<D, dims_t<Indices>, BatchDims>>;
  static_assert(correct<mistake>,
                "gather_nd<batch_dims>: needs integer indices [..., k], where k is a number from 1 to the rank of x: "
                "gather_nd(x, tensor<std::int32_t, dims<1, 2>>{3, 1})");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e, indices);
  } else {
    constexpr std::size_t batch = BatchDims;
    using slices = detail::by_vectors<D, dims_t<Indices>, batch>;
    const auto x = materialize(e);
    const auto i = materialize(indices);
    return call_operation<batch_gather_op<T>, T, typename slices::type>(
        slices::extents(x, i), {batch, batch, false, index_rule::in_range, slices::depth}, x, i);
  }
}

WEFT_OTHER_CALLS(gather_nd);  // takes index vectors, the number of batch axes in brackets: gather_nd<1>(x, i)

}  // namespace weft
