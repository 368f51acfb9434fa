// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/reduce/reductions.hpp>

/// Quantiles and other order statistics. Not part of <weft/weft.hpp>. They sort; see ops/index/sort.hpp.
namespace weft {

/// The value of a quantile between two elements: on the line between them, the lower or the higher one, the nearer one
/// (or the one with the even rank), or their mean.
enum class quantile_method { linear, lower, higher, nearest, midpoint };

/// A quantile is along one axis, or of all elements.
template <class Dims, auto... Axes>
struct more_than_one_axis : mistake<(sizeof...(Axes) > 1)> {};

/// q must be a number, or a scalar or vector of double.
template <class Ranks>
struct quantile_is_not_a_double : mistake<!std::is_arithmetic_v<Ranks>> {};
template <Expression Ranks>
struct quantile_is_not_a_double<Ranks> : mistake<!std::is_same_v<value_t<Ranks>, double> || (dims_t<Ranks>::rank > 1)> {
};

namespace detail {

template <class Expr, class Ranks, auto... Axes>
constexpr auto find_quantile_mistake(axis_list<Axes...>) {
  if constexpr (sizeof...(Axes) > 1)
    return more_than_one_axis<dims_t<Expr>, Axes...>{};
  else
    return first_mistake<decltype(find_reduction_mistake<Expr, not_floating>(axis_list<Axes...>{})),
                         quantile_is_not_a_double<Ranks>>{};
}

inline double checked_quantile(double q) {
  if (!(q >= 0 && q <= 1))
    throw error(error_code::invalid_argument, "quantile", {"q must be between 0 and 1; it is ", std::to_string(q)});
  return q;
}

/// Checks numbers that are known now.
template <Expression Ranks>
auto checked_quantiles(const Ranks& q) {
  const auto known = materialize(q);
  if constexpr (!Ranks::symbolic)
    for (std::size_t i = 0; i < known.elements(); ++i) checked_quantile(known.data()[i]);
  return known;
}

/// Appends axes of extent 1.
template <std::size_t Ones, class X>
auto columns(const X& x) {
  return under_axes<pick_kept<0>, dims_t<X>::rank + Ones>(x);
}

/// Quantiles along the first axis. The result has the axes of q in front.
template <quantile_method Between, class X, class Ranks>
auto quantile_of_rows(const X& x, const Ranks& q) {
  using T = value_t<X>;
  const auto sorted = sort<0>(x);
  const auto last = materialize(cast<double>(extent_value<extent_at<dims_t<X>, 0>::value>(x)) - 1.0);
  const auto rank = materialize(q * last);
  const auto at = [&](const auto& index) {
    return gather<0, outer_indexing>(sorted, materialize(cast<std::int64_t>(index)));
  };
  const auto below = floor(rank);
  const auto above = -floor(-rank);
  const auto value = [&] {
    if constexpr (Between == quantile_method::lower) {
      return at(below);
    } else if constexpr (Between == quantile_method::higher) {
      return at(above);
    } else if constexpr (Between == quantile_method::nearest) {
      const auto even = 2.0 * floor(below / 2.0 + 0.5);  // of the two nearest ranks
      return at(weft::select(rank - below == 0.5, even, floor(rank + 0.5)));
    } else if constexpr (Between == quantile_method::midpoint) {
      // Not from the difference, which two infinities do not have.
      return materialize(static_cast<T>(0.5) * at(below) + static_cast<T>(0.5) * at(above));
    } else {
      using Weights = dims_t<decltype(q * last)>;
      constexpr std::size_t ones = dims_t<X>::rank - 1;
      const auto weight = [&] {
        if constexpr (Weights::rank == 0)
          return materialize(cast<T>(rank - below));
        else
          return columns<ones>(materialize(cast<T>(rank - below)));
      }();
      const auto low = at(below);
      return materialize(low + weight * (at(above) - low));
    }
  }();
  const auto largest = at(last);
  return materialize(weft::select(largest == largest, value, largest));
}

template <quantile_method Method, bool Keeps, class Expr, class Ranks, auto... Axes>
auto quantile_along(const Expr& e, const Ranks& q, axis_list<Axes...>) {
  using D = dims_t<Expr>;
  const auto x = materialize(e);
  if constexpr (sizeof...(Axes) == 0) {
    const auto value = quantile_of_rows<Method>(reshape<dims<-1>>(x), q);
    if constexpr (Keeps)
      return columns<D::rank>(value);
    else
      return value;
  } else {
    constexpr std::size_t axis = axis_number<D, static_cast<int>(Axes)...>;
    const auto value = [&] {
      if constexpr (axis == 0)
        return quantile_of_rows<Method>(x, q);
      else
        return quantile_of_rows<Method>(transpose_by<moved<axis, 0>>(x), q);
    }();
    if constexpr (Keeps)
      return expand_dims<static_cast<int>(axis + dims_t<decltype(value)>::rank + 1 - D::rank)>(value);
    else
      return value;
  }
}

}  // namespace detail

/// Returns quantiles along an axis, or of all elements, float or double (torch.quantile, numpy.quantile):
/// `quantile<0>(x, 0.9)`, `quantile<0, keep_dims>(x, 0.9)`, `quantile<0, quantile_method::lower>(x, 0.9)`. q is between
/// 0 and 1: a number, or a scalar or vector of double. For a vector, the result has a first axis with one element for
/// each q. If an element is NaN, so is the result. The gradient goes to the elements that determine the result. Throws
/// invalid_argument if q is a number or a tensor with a number out of range, and out_of_range for a node with such
/// numbers (with quantile_method::nearest, only if no element is that near), or without elements.
template <auto... Axes, Expression Expr, class Ranks>
[[nodiscard]] auto quantile(const Expr& e, const Ranks& q) {
  using axes = decltype(detail::without_option<keep_dims_option>(detail::axis_list<>{},
                                                                 detail::axes_beside<quantile_method, Axes...>{}));
  using mistake = decltype(detail::find_quantile_mistake<Expr, Ranks>(axes{}));
  static_assert(correct<mistake>,
                "quantile: needs an axis of the operand, elements of float or double, and q as a number or a vector of "
                "double: quantile<0>(x, 0.9)");
  constexpr quantile_method method = detail::option_among(quantile_method::linear, Axes...);
  constexpr bool keeps = detail::keeps_dims<Axes...>;
  if constexpr (!correct<mistake>)
    return detail::same_after_mistake(e);
  else if constexpr (std::is_arithmetic_v<Ranks>)
    return detail::quantile_along<method, keeps>(e, detail::checked_quantile(static_cast<double>(q)), axes{});
  else
    return detail::quantile_along<method, keeps>(e, detail::checked_quantiles(q), axes{});
}

/// Returns the middle element along an axis, or of all elements, and the mean of two if their number is even
/// (numpy.median). See `quantile`.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto median(const Expr& e) {
  return quantile<Axes..., quantile_method::midpoint>(e, 0.5);
}

/// Returns the middle element along an axis, or of all elements, and the lower of two (torch.median). See `quantile`.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto lower_median(const Expr& e) {
  return quantile<Axes..., quantile_method::lower>(e, 0.5);
}

/// Returns the k-th smallest elements along an axis, which is removed, and their indices, std::int32_t
/// (torch.kthvalue): `auto [values, indices] = kthvalue<1>(x, 1)` are the smallest. NaN is larger than every number.
/// Throws out_of_range unless k is between 1 and the extent.
template <int Axis = -1, Expression Expr>
[[nodiscard]] auto kthvalue(const Expr& e, std::int64_t k) {
  static_assert(correct<sort_mistake<Expr, Axis>>, "kthvalue: needs a valid axis and numeric elements");
  if constexpr (correct<sort_mistake<Expr, Axis>>) {
    const auto sorted = detail::sorted_along<Axis>(e, direction::ascending);
    const tensor<std::int64_t> at(k < 1 ? -1 : k - 1);  // out of range, as any number below 1
    auto values = gather<Axis>(sorted.values, at);
    auto indices = gather<Axis>(sorted.indices, at);
    return ordered<decltype(values), decltype(indices)>{values, indices};
  } else {
    return detail::nothing_sorted(e);
  }
}

WEFT_OTHER_CALLS(quantile);      // axes are template arguments: quantile<0>(x, 0.9), quantile<0, keep_dims>(x, 0.9)
WEFT_OTHER_CALLS(median);        // the axis is a template argument: median<0>(x), median(x) of all elements
WEFT_OTHER_CALLS(lower_median);  // the axis is a template argument: lower_median<0>(x)
WEFT_OTHER_CALLS(kthvalue);      // the axis is a template argument: auto [values, indices] = kthvalue<0>(x, 3)

}  // namespace weft
