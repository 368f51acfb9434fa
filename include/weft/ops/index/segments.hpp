// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/ops/arrays/stop_gradient.hpp>
#include <weft/ops/bounded.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/index/in_graph.hpp>
#include <weft/ops/index/scatter.hpp>

/// Reductions of segments: rows with equal ids. Not part of <weft/weft.hpp>.
///
/// All functions take rows `[n, ...]` and integer ids `[n]`, or rows `[n, m, ...]` and ids `[n, m]`, and return
/// `[segments, ...]`. The number of segments is a template argument: a number, `segment_sum<8>(x, ids)`, or a name
/// whose value a step knows, `segment_sum<dyn<"graphs">>(x, ids)`. Over tensors, it may be an argument, `segment_sum(x,
/// ids, 8)`; if it is not given, it is the largest id + 1. Rows are combined in their order, for any number of threads.
///
/// Sorted segments (segment_sum) throw invalid_argument if the ids do not ascend, and out_of_range if an id is invalid.
/// Unsorted segments (unsorted_segment_sum) skip rows with a negative id. A GPU skips rows with an invalid id. Sums and
/// means of empty segments are 0 and products are 1. Minima and maxima of empty segments are 0 if sorted, and the
/// highest and the lowest finite number if unsorted. All conventions are TensorFlow's. Equal minima or maxima share the
/// gradient. Second gradients of a product are correct if a segment has at most one zero.
namespace weft {

/// Returns the sums of sorted segments (tf.math.segment_sum).
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto segment_sum(const Expr& x, const Ids& ids, const Count&... count);
/// Returns the means of sorted segments (tf.math.segment_mean).
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto segment_mean(const Expr& x, const Ids& ids, const Count&... count);
/// Returns the products of sorted segments (tf.math.segment_prod).
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto segment_prod(const Expr& x, const Ids& ids, const Count&... count);
/// Returns the largest elements of sorted segments (tf.math.segment_max).
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto segment_max(const Expr& x, const Ids& ids, const Count&... count);
/// Returns the smallest elements of sorted segments (tf.math.segment_min).
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto segment_min(const Expr& x, const Ids& ids, const Count&... count);
/// Returns the sums of segments in any order (tf.math.unsorted_segment_sum, torch_geometric.utils.scatter).
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto unsorted_segment_sum(const Expr& x, const Ids& ids, const Count&... count);
/// Returns the means of segments in any order (tf.math.unsorted_segment_mean).
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto unsorted_segment_mean(const Expr& x, const Ids& ids, const Count&... count);
/// Returns the products of segments in any order (tf.math.unsorted_segment_prod).
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto unsorted_segment_prod(const Expr& x, const Ids& ids, const Count&... count);
/// Returns the largest elements of segments in any order (tf.math.unsorted_segment_max).
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto unsorted_segment_max(const Expr& x, const Ids& ids, const Count&... count);
/// Returns the smallest elements of segments in any order (tf.math.unsorted_segment_min).
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto unsorted_segment_min(const Expr& x, const Ids& ids, const Count&... count);
/// Returns the softmax within each segment, in the extents of x, float or double (torch_geometric.utils.softmax): the
/// attention weights of the edges of each node. The ids may be in any order; rows with a negative id are 0.
template <auto SegmentCount = dyn<"segments">, Expression Expr, Expression Ids, class... Count>
[[nodiscard]] auto segment_softmax(const Expr& x, const Ids& ids, const Count&... count);

/// The ids of segments must be the leading extents of x.
template <class Dims, class Ids>
struct segment_ids_do_not_lead
    : mistake<(Ids::rank > Dims::rank || !detail::same_extents(Dims::spec, Ids::spec, Ids::rank))>{};

/// In a graph, the number of segments is a template argument.
template <class Dims, class... Count>
struct segment_count_is_an_argument : mistake<(sizeof...(Count) > 0)> {};

namespace detail {

enum class segment_form { sum, mean, prod, max, min, softmax };

template <segment_form Form, auto SegmentCount, class Expr, class Ids, class... Count>
constexpr auto find_segment_mistake() {
  using D = dims_t<Expr>;
  using T = value_t<Expr>;
  constexpr bool divides = Form == segment_form::mean || Form == segment_form::softmax;
  return first_mistake<extents_are_not_valid<dims<SegmentCount>>, row_indices_not_integers<value_t<Ids>>,
                       segment_ids_do_not_lead<D, dims_t<Ids>>,
                       std::conditional_t<divides, not_floating<T>,
                                          std::conditional_t<Form == segment_form::sum, elements_not_numeric<T>,
                                                             reduction_undefined_for<T>>>,
                       std::conditional_t<Expr::symbolic || Ids::symbolic, segment_count_is_an_argument<D, Count...>,
                                          mistake<(sizeof...(Count) > 1)>>>{};
}
template <segment_form Form, auto SegmentCount, class Expr, class Ids, class... Count>
using segment_mistake = decltype(find_segment_mistake<Form, SegmentCount, Expr, Ids, Count...>());

/// Returns the number of segments over tensors: SegmentCount, the argument, or the largest id + 1.
template <auto SegmentCount, class Ids, class... Count>
std::int64_t segment_count(const Ids& ids, const Count&... given) {
  using S = dims_t<dims<SegmentCount>>;
  const std::int64_t told = told_extents(ids.extents(), dims_t<Ids>::spec, S::spec, definitions_of<S>)[0];
  std::int64_t count = told;
  if constexpr (sizeof...(Count) > 0) count = (static_cast<std::int64_t>(given), ...);
  if (count < 0 && sizeof...(Count) == 0)
    for (std::size_t i = 0; i < ids.elements(); ++i)
      if (const auto id = static_cast<std::int64_t>(ids.data()[i]); id >= count) {
        if (id == std::numeric_limits<std::int64_t>::max())
          throw error(error_code::out_of_range, "segments", {"an id is ", id});
        count = id + 1;
      }
  if (count < 0 && sizeof...(Count) == 0) count = 0;
  if (count < 0 || (told >= 0 && count != told))
    throw error(
        error_code::invalid_argument, "segments",
        {"the number of segments must be ", told >= 0 ? str_cat({told}) : std::string("0 or more"), "; it is ", count});
  return count;
}

/// The extents of segments of rows D whose ids have the extents At.
template <class D, class At, auto SegmentCount>
using segment_dims = with_rows<D, At::rank, dims_t<dims<SegmentCount>>>;

/// Combines the rows of equal id.
template <combine How, index_rule Rule, auto SegmentCount, class X, class Ids, class... Count>
auto combined_segments(const X& x, const Ids& ids, const Count&... count) {
  using T = value_t<X>;
  using To = segment_dims<dims_t<X>, dims_t<Ids>, SegmentCount>;
  constexpr bool symbolic = X::symbolic || Ids::symbolic;
  constexpr batch_gather_attributes lists{0, 0, false, Rule};
  shape extents = To::spec;
  if constexpr (!symbolic) {
    extents[0] = segment_count<SegmentCount>(ids, count...);
    for (std::size_t i = 1; i < To::rank; ++i) extents[i] = x.extents()[dims_t<Ids>::rank + i - 1];
  }
  auto y = [&] {
    if constexpr (How == combine::add)
      return call_operation<batch_scatter_add_op<T>, T, To>(extents, lists, x, ids);
    else
      return call_scatter<To>(extents, lists, How, x, ids);
  }();
  if constexpr (symbolic) remember_extents<To>(*y.erased().builder());
  return y;
}

/// Returns the number of rows of each segment, `[segments, 1, ...]`, so that it broadcasts against the segments.
template <index_rule Rule, auto SegmentCount, class X, class Ids, class... Count>
auto rows_of_segments(const Ids& ids, const Count&... count) {
  const auto ones = materialize(ones_like<value_t<X>>(ids));
  const auto rows = combined_segments<combine::add, Rule, SegmentCount>(ones, ids, count...);
  using To = rows_alone<segment_dims<dims_t<X>, dims_t<Ids>, SegmentCount>>;
  shape extents = To::spec;
  if constexpr (!Ids::symbolic) extents[0] = rows.extents()[0];
  return under_extents<To>(rows, extents);
}

/// Returns for each row the value of its segment, or 0 for a row that is skipped.
template <index_rule Rule, class Segments, class Ids>
auto spread_segments(const Segments& s, const Ids& ids) {
  using T = value_t<Segments>;
  return call_operation<batch_gather_op<T>, T, gathered<dims_t<Segments>, dims_t<Ids>, 0>>(gathered_extents<0>(s, ids),
                                                                                           {0, 0, false, Rule}, s, ids);
}

template <segment_form Form, index_rule Rule, auto SegmentCount, class Expr, class Given, class... Count>
auto reduced_segments(const Expr& e, const Given& given, const Count&... count) {
  using T = value_t<Expr>;
  const auto x = materialize(e);
  const auto ids = [&] {
    if constexpr (Expr::symbolic)
      return in_graph(*x.erased().builder(), materialize(given));
    else
      return materialize(given);
  }();
  using X = std::remove_const_t<decltype(x)>;
  if constexpr (Form == segment_form::sum) {
    return combined_segments<combine::add, Rule, SegmentCount>(x, ids, count...);
  } else if constexpr (Form == segment_form::prod) {
    return combined_segments<combine::mul, Rule, SegmentCount>(x, ids, count...);
  } else if constexpr (Form == segment_form::mean) {
    return materialize(combined_segments<combine::add, Rule, SegmentCount>(x, ids, count...) /
                       maximum(rows_of_segments<Rule, SegmentCount, X>(ids, count...), T(1)));
  } else if constexpr (Form == segment_form::softmax) {
    const auto largest = stop_gradient(combined_segments<combine::max, Rule, SegmentCount>(x, ids, count...));
    // A row that is skipped has no largest element, and could overflow.
    const auto is_kept = spread_segments<Rule>(materialize(ones_like(largest)), ids) != T(0);
    const auto below =
        weft::select(is_kept, x - spread_segments<Rule>(largest, ids), -std::numeric_limits<T>::infinity());
    const auto powers = materialize(exp(below));
    const auto sums = combined_segments<combine::add, Rule, SegmentCount>(powers, ids, count...);
    const auto scale = materialize(T(1) / weft::select(sums == T(0), std::numeric_limits<T>::infinity(), sums));
    return materialize(powers * spread_segments<Rule>(scale, ids));
  } else {
    const auto y = combined_segments < Form == segment_form::max ? combine::max : combine::min, Rule,
               SegmentCount > (x, ids, count...);
    if constexpr (Rule != index_rule::ascending)
      return y;
    else
      return materialize(weft::select(rows_of_segments<Rule, SegmentCount, X>(ids, count...) == T(0), T(0), y));
  }
}

}  // namespace detail

#define WEFT_RULE ascending
#define WEFT_NAME segment_sum
#define WEFT_FORM sum
#include <weft/ops/index/segment_function.inc>
#define WEFT_NAME segment_mean
#define WEFT_FORM mean
#include <weft/ops/index/segment_function.inc>
#define WEFT_NAME segment_prod
#define WEFT_FORM prod
#include <weft/ops/index/segment_function.inc>
#define WEFT_NAME segment_max
#define WEFT_FORM max
#include <weft/ops/index/segment_function.inc>
#define WEFT_NAME segment_min
#define WEFT_FORM min
#include <weft/ops/index/segment_function.inc>
#undef WEFT_RULE

#define WEFT_RULE not_negative
#define WEFT_NAME unsorted_segment_sum
#define WEFT_FORM sum
#include <weft/ops/index/segment_function.inc>
#define WEFT_NAME unsorted_segment_mean
#define WEFT_FORM mean
#include <weft/ops/index/segment_function.inc>
#define WEFT_NAME unsorted_segment_prod
#define WEFT_FORM prod
#include <weft/ops/index/segment_function.inc>
#define WEFT_NAME unsorted_segment_max
#define WEFT_FORM max
#include <weft/ops/index/segment_function.inc>
#define WEFT_NAME unsorted_segment_min
#define WEFT_FORM min
#include <weft/ops/index/segment_function.inc>
#define WEFT_NAME segment_softmax
#define WEFT_FORM softmax
#include <weft/ops/index/segment_function.inc>
#undef WEFT_RULE

}  // namespace weft
