// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/index/segments.hpp>

/// Counts of integers, and histograms. Not part of <weft/weft.hpp>.
namespace weft {

/// What a histogram does with elements below `low` and above `high`: counts them in the first and the last bin
/// (tf.histogram_fixed_width), or not at all (torch.histc, numpy.histogram).
enum class outliers : unsigned char { clamp, ignore };

/// In a graph, the number of bins is a template argument.
template <class Bins, bool InGraph>
struct number_of_bins_is_missing : mistake<InGraph && std::is_same_v<Bins, dims<dyn<"bins">>>> {};

/// The number of bins must be positive.
template <int Bins>
struct bins_not_positive : mistake<(Bins < 1)> {};

/// Returns how often each integer from 0 to Bins - 1 occurs in ids of any extents, std::int32_t `[Bins]`
/// (tf.math.bincount with maxlength, torch.bincount, numpy.bincount): `bincount<10>(ids)`. Others are not counted. Over
/// tensors, Bins may be omitted, and is then the largest integer + 1.
template <auto Bins = dyn<"bins">, Expression Ids>
[[nodiscard]] auto bincount(const Ids& given) {
  using mistake = first_mistake<extents_are_not_valid<dims<Bins>>, row_indices_not_integers<value_t<Ids>>,
                                number_of_bins_is_missing<dims<Bins>, Ids::symbolic>>;
  static_assert(correct<mistake>,
                "bincount<n>(ids): needs integers, cast<std::int32_t>(ids), and in a graph the number of bins");
  if constexpr (correct<mistake>) {
    const auto ids = materialize(given);
    return detail::combined_segments<combine::add, index_rule::any, Bins>(materialize(ones_like<std::int32_t>(ids)),
                                                                          ids);
  } else {
    return detail::after_mistake<std::int32_t, dims_t<Ids>>(given);
  }
}

/// Returns the sum of the weights of each integer, in the weights' type. The weights have the extents of the ids.
template <auto Bins = dyn<"bins">, Expression Ids, Expression Weights>
[[nodiscard]] auto bincount(const Ids& ids, const Weights& weights) {
  using mistake =
      first_mistake<extents_are_not_valid<dims<Bins>>, row_indices_not_integers<value_t<Ids>>,
                    elements_not_numeric<value_t<Weights>>, written_rows_differ<dims_t<Weights>, dims_t<Ids>>,
                    number_of_bins_is_missing<dims<Bins>, Ids::symbolic || Weights::symbolic>>;
  static_assert(
      correct<mistake>,
      "bincount<n>(ids, weights): needs integers, numeric weights of their extents, and in a graph the number "
      "of bins");
  if constexpr (correct<mistake>)
    return detail::combined_segments<combine::add, index_rule::any, Bins>(materialize(weights), materialize(ids));
  else
    return detail::after_mistake<value_t<Weights>, dims_t<Ids>>(ids, weights);
}

/// Returns the number of elements in each of `Bins` bins of equal width from `low` to `high`, std::int32_t `[Bins]`.
/// x is float or double and has any extents; `low` and `high` are numbers or scalars. `high` itself is in the last bin;
/// NaNs are not counted.
template <int Bins, outliers Outliers = outliers::clamp, Expression Expr, class Low, class High>
[[nodiscard]] auto histogram(const Expr& e, const Low& low, const High& high) {
  using T = value_t<Expr>;
  using mistake = first_mistake<bins_not_positive<Bins>, not_floating<T>>;
  static_assert(correct<mistake>,
                "histogram<bins>(x, low, high): needs a positive number of bins, and float or double");
  if constexpr (correct<mistake>) {
    const auto x = materialize(e);
    const T half = T(0.5);  // of numbers whose difference may overflow
    const auto place = materialize(floor((half * x - half * low) / (half * high - half * low) * T(Bins)));
    if constexpr (Outliers == outliers::clamp)
      return bincount<Bins>(
          cast<std::int32_t>(select(place == place, minimum(maximum(place, T(0)), T(Bins - 1)), T(-1))));
    else
      return bincount<Bins>(cast<std::int32_t>(select(x >= low && x <= high, minimum(place, T(Bins - 1)), T(-1))));
  } else {
    return detail::after_mistake<std::int32_t, dims_t<Expr>>(e);
  }
}

WEFT_OTHER_CALLS(bincount);   // the number of bins is in brackets: bincount<10>(ids), bincount<10>(ids, weights)
WEFT_OTHER_CALLS(histogram);  // the number of bins is in brackets: histogram<10>(x, low, high)

}  // namespace weft
