// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/tensor/tensor.hpp>

/// Mistakes in the operands of a metric's update().
namespace weft {

/// A metric requires tensors, views of tensors, expressions over tensors or numbers.
template <class X>
struct metric_operand_is_not_a_tensor : mistake<true> {};

/// Labels must be classes: integers or bool.
template <class T>
struct labels_are_not_classes : mistake<!std::is_integral_v<T>> {};

/// Predictions with the labels' extents must be classes: integers or bool.
template <class T>
struct predictions_are_not_classes : mistake<!std::is_integral_v<T>> {};

/// Predictions with one axis more than the labels must be scores: logits or probabilities.
template <class T>
struct scores_are_not_floating : mistake<!is_differentiable<T>> {};

/// The extents must be equal. Dynamic ones are compared at run time.
template <class Labels, class Predictions>
struct metric_extents_differ : mistake<!detail::assignable(Labels::spec, Predictions::spec)> {};

/// Predictions must be [..., classes] for labels [...], or classes with the labels' extents.
template <class Labels, class Predictions>
struct predictions_do_not_fit_labels : mistake<true> {};

/// Weights must have the labels' extents, or be one number.
template <class Weights, class Values>
struct weights_do_not_fit_values : mistake<!(Weights::rank == 0 || detail::assignable(Weights::spec, Values::spec))> {};

namespace detail {

template <class X>
struct metric_operand {
  static constexpr bool is_valued = false, is_symbolic = false;
};
template <class X>
  requires std::is_arithmetic_v<X>
struct metric_operand<X> {
  static constexpr bool is_valued = true, is_symbolic = false;
  using value_type = std::conditional_t<std::is_integral_v<X>, std::int64_t, double>;  // long long has no tensors
  using dims_type = dims<>;
};
template <class X>
  requires Expression<X>
struct metric_operand<X> {
  static constexpr bool is_valued = !X::symbolic, is_symbolic = X::symbolic;
  using value_type = value_t<X>;
  using dims_type = dims_t<X>;
};
template <class T, class Dims>
struct metric_operand<tensor_view<T, Dims>> {
  static constexpr bool is_valued = true, is_symbolic = false;
  using value_type = std::remove_const_t<T>;
  using dims_type = Dims;
};

template <class X>
using metric_value_t = typename metric_operand<X>::value_type;
template <class X>
using metric_dims_t = typename metric_operand<X>::dims_type;

/// Returns the mistake of the first operand without values, or void.
template <class X, class... More>
constexpr auto find_valueless() {
  if constexpr (metric_operand<X>::is_symbolic)
    return value_needs_a_session<metric_dims_t<X>>{};
  else if constexpr (!metric_operand<X>::is_valued)
    return metric_operand_is_not_a_tensor<X>{};
  else if constexpr (sizeof...(More) > 0)
    return find_valueless<More...>();
  else
    return mistake<false>{};
}

constexpr bool scores_fit(const shape& labels, const shape& scores) {
  if (scores.rank != labels.rank + 1) return false;
  shape rows = scores;
  --rows.rank;
  return assignable(labels, rows);
}

template <class Labels, class Predictions, class Weights>
constexpr auto find_pair_mistake() {
  using valueless = decltype(find_valueless<Labels, Predictions, Weights>());
  if constexpr (!correct<valueless>) {
    return valueless{};
  } else {
    using labels = metric_dims_t<Labels>;
    return first_mistake<metric_extents_differ<labels, metric_dims_t<Predictions>>,
                         weights_do_not_fit_values<metric_dims_t<Weights>, labels>>{};
  }
}

template <class Labels, class Predictions, class Weights, bool TakesClasses>
constexpr auto find_class_mistake() {
  using valueless = decltype(find_valueless<Labels, Predictions, Weights>());
  if constexpr (!correct<valueless>) {
    return valueless{};
  } else {
    using labels = metric_dims_t<Labels>;
    using predictions = metric_dims_t<Predictions>;
    constexpr bool scores = predictions::rank == labels::rank + 1;
    constexpr bool fit = scores ? scores_fit(labels::spec, predictions::spec)
                                : TakesClasses && assignable(labels::spec, predictions::spec);
    using fits = std::conditional_t<fit, mistake<false>, predictions_do_not_fit_labels<labels, predictions>>;
    using kind = std::conditional_t<scores, scores_are_not_floating<metric_value_t<Predictions>>,
                                    predictions_are_not_classes<metric_value_t<Predictions>>>;
    return first_mistake<labels_are_not_classes<metric_value_t<Labels>>, fits, kind,
                         weights_do_not_fit_values<metric_dims_t<Weights>, labels>>{};
  }
}

template <class Values, class Weights>
constexpr auto find_mean_mistake() {
  using valueless = decltype(find_valueless<Values, Weights>());
  if constexpr (!correct<valueless>)
    return valueless{};
  else
    return weights_do_not_fit_values<metric_dims_t<Weights>, metric_dims_t<Values>>{};
}

}  // namespace detail
}  // namespace weft
