// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/counted.hpp>
#include <weft/ops/index/searchsorted.hpp>
#include <weft/ops/index/segments.hpp>

/// Ragged rows, stored as their values `[n, ...]` and the splits of the rows `[rows + 1]`: row i consists of values
/// splits[i] to splits[i + 1] - 1 (tf.RaggedTensor's values and row_splits, the offsets of torch.nn.EmbeddingBag). Not
/// part of <weft/weft.hpp>. Splits are std::int32_t or std::int64_t, in ascending order; values in front of the first
/// and behind the last split are ignored.
namespace weft {

/// The values need rows, and the splits one axis of at least one element.
template <class Dims, class Splits>
struct splits_do_not_fit : mistake<(Dims::rank == 0 || Splits::rank != 1 || Splits::spec[0] == 0)> {};

namespace detail {

template <class Expr, class Splits>
using ragged_mistake =
    first_mistake<row_indices_not_integers<value_t<Splits>>, splits_do_not_fit<dims_t<Expr>, dims_t<Splits>>>;

template <segment_form Form, class Expr, class Splits>
auto reduced_rows_of(const Expr& e, const Splits& given) {
  using T = value_t<Expr>;
  constexpr bool divides = Form == segment_form::mean || Form == segment_form::softmax;
  using mistake = first_mistake<ragged_mistake<Expr, Splits>,
                                std::conditional_t<divides, not_floating<T>, elements_not_numeric<T>>>;
  static_assert(
      correct<mistake>,
      "ragged rows: needs values [n, ...] and integer splits [rows + 1], float or double for a mean or softmax");
  if constexpr (!correct<mistake>) {
    return after_mistake<T, dims_t<Expr>>(e, given);
  } else {
    const auto x = materialize(e);
    const auto splits = materialize(given);
    const auto ids = materialize(ragged_row_ids(x, splits));
    constexpr auto rows = extent_of<dims_t<Splits>, 0>() - extent<1>;
    if constexpr (Expr::symbolic || Splits::symbolic)
      return reduced_segments<Form, index_rule::any, rows>(x, ids);
    else
      return reduced_segments<Form, index_rule::any, rows>(x, ids, splits.extents()[0] - 1);
  }
}

}  // namespace detail

/// Returns the row of each value, std::int32_t `[n]` (tf.RaggedTensor.value_rowids): -1 in front of the first row, and
/// the number of rows behind the last one.
template <Expression Expr, Expression Splits>
[[nodiscard]] auto ragged_row_ids(const Expr& values, const Splits& given) {
  using mistake = detail::ragged_mistake<Expr, Splits>;
  static_assert(correct<mistake>, "ragged_row_ids: needs values [n, ...] and integer splits [rows + 1]");
  if constexpr (correct<mistake>) {
    using S = value_t<Splits>;
    const auto splits = materialize(given);
    const auto x = materialize(values);
    return materialize(searchsorted(splits, detail::counted_along<S, 0>(x), side::right) - 1);
  } else {
    return detail::after_mistake<std::int32_t, dims_t<Expr>>(values, given);
  }
}

/// Returns the sum of each row, `[rows, ...]` (tf.reduce_sum of a ragged tensor, torch.segment_reduce); 0 for an empty
/// row.
template <Expression Expr, Expression Splits>
[[nodiscard]] auto ragged_sum(const Expr& values, const Splits& splits) {
  return detail::reduced_rows_of<detail::segment_form::sum>(values, splits);
}
/// Returns the mean of each row; 0 for an empty row, as for segments (TensorFlow's is NaN).
template <Expression Expr, Expression Splits>
[[nodiscard]] auto ragged_mean(const Expr& values, const Splits& splits) {
  return detail::reduced_rows_of<detail::segment_form::mean>(values, splits);
}
/// Returns the largest value of each row; the lowest finite number for a row that is empty or has only -infinity.
template <Expression Expr, Expression Splits>
[[nodiscard]] auto ragged_max(const Expr& values, const Splits& splits) {
  return detail::reduced_rows_of<detail::segment_form::max>(values, splits);
}
/// Returns the smallest value of each row; the highest finite number for a row that is empty or has only infinity.
template <Expression Expr, Expression Splits>
[[nodiscard]] auto ragged_min(const Expr& values, const Splits& splits) {
  return detail::reduced_rows_of<detail::segment_form::min>(values, splits);
}
/// Returns the softmax within each row, in the extents of the values, float or double. Ignored values are 0.
template <Expression Expr, Expression Splits>
[[nodiscard]] auto ragged_softmax(const Expr& values, const Splits& splits) {
  return detail::reduced_rows_of<detail::segment_form::softmax>(values, splits);
}

}  // namespace weft
