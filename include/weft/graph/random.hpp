// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/graph/leaves.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/random/random.hpp>

/// Random numbers in a graph. Included by name, not by <weft/weft.hpp>.
namespace weft {

/// Random numbers must be float, double, half or bfloat16.
template <class T>
struct random_elements_not_floating : mistake<!is_differentiable<T>> {};

/// The elements must be integers.
template <class T>
struct random_elements_not_integers : mistake<!std::is_integral_v<T> || std::is_same_v<T, bool>> {};

namespace detail {

/// The mistake in an array of random numbers, if any.
template <class T, class Dims>
using random_mistake = first_mistake<extents_are_not_valid<Dims>, random_elements_not_floating<T>>;
template <class T, class Dims>
using random_int_mistake = first_mistake<extents_are_not_valid<Dims>, random_elements_not_integers<T>>;

template <template <class> class Op, class T, class Dims, class Number = double>
auto random_node(graph& g, std::type_identity_t<Number> a, std::type_identity_t<Number> b,
                 const random_options& options) {
  if constexpr (correct<random_mistake<T, Dims>> || correct<random_int_mistake<T, Dims>>) {
    gpu::compile_kernels<Op, T>();
    remember_names(g, Dims::spec, Dims::names);
    remember_formulas<Dims>(g);
    return node<T, dims_t<Dims>>(record_random<Op<T>, Number>(g, {dtype_of<T>, Dims::spec}, a, b, options));
  } else {
    return node<T, dims_t<Dims>>(symbol());
  }
}

}  // namespace detail

namespace detail {

/// The element type and the extents must be template arguments, and the graph the first argument.
template <class... Arguments>
struct random_arguments_are_not_taken : mistake<true> {};

template <class Types, class... X>
inline constexpr bool draws_random = false;
template <class T, class... Dims, class Graph, class... X>
inline constexpr bool draws_random<std::tuple<T, Dims...>, Graph, X...> =
    Element<T> && std::is_convertible_v<Graph, graph&> &&
    ((std::is_arithmetic_v<std::remove_cvref_t<X>> || std::is_same_v<std::remove_cvref_t<X>, random_options>) && ...);

}  // namespace detail

/// Uniform random numbers in [low, high), new ones in each step (tf.random.uniform): `random_uniform<float, dims<3,
/// 4>>(g)`. An element depends only on the graph's seed, on the call's position among the random calls or its `{.seed =
/// 7}`, on the session's `step_number()` and on the element's index, not on threads or the device. Has no gradient.
/// Throws invalid_argument unless low < high.
template <Element T, class Dims = dims<>>
[[nodiscard]] auto random_uniform(graph& g, double low = 0, double high = 1, random_options options = {}) {
  static_assert(correct<detail::random_mistake<T, Dims>>,
                "random_uniform: needs extents, dims<...>, and elements of float, double, half or bfloat16");
  if (!(low < high)) throw error(error_code::invalid_argument, "random_uniform", "low must be less than high");
  return detail::random_node<random_uniform_op, T, Dims>(g, low, high, options);
}

/// Normal random numbers, new ones in each step (tf.random.normal). Reproducible like `random_uniform`, except that
/// GPUs may differ in the last bits. Throws invalid_argument if the standard deviation is negative.
template <Element T, class Dims = dims<>>
[[nodiscard]] auto random_normal(graph& g, double mean = 0, double stddev = 1, random_options options = {}) {
  static_assert(correct<detail::random_mistake<T, Dims>>,
                "random_normal: needs extents, dims<...>, and elements of float, double, half or bfloat16");
  if (!(stddev >= 0))
    throw error(error_code::invalid_argument, "random_normal", "the standard deviation must not be negative");
  return detail::random_node<random_normal_op, T, Dims>(g, mean, stddev, options);
}

/// Normal random numbers within two standard deviations of the mean (tf.random.truncated_normal); otherwise like
/// `random_normal`. The standard deviation is that of the normal distribution before truncation.
template <Element T, class Dims = dims<>>
[[nodiscard]] auto random_truncated_normal(graph& g, double mean = 0, double stddev = 1, random_options options = {}) {
  static_assert(correct<detail::random_mistake<T, Dims>>,
                "random_truncated_normal: needs extents, dims<...>, and elements of float, double, half or bfloat16");
  if (!(stddev >= 0))
    throw error(error_code::invalid_argument, "random_truncated_normal", "the standard deviation must not be negative");
  return detail::random_node<random_truncated_normal_op, T, Dims>(g, mean, stddev, options);
}

/// Random integers, uniform in [low, high), new ones in each step (tf.random.uniform with an integer type,
/// torch.randint): `random_int<std::int32_t, dims<3, 4>>(g, 0, 10)`. Any integer type. The probabilities' relative
/// differences are less than 2^-32, for 64-bit types less than 2^-64. Reproducible like `random_uniform`. Throws
/// invalid_argument unless low < high.
template <Element T, class Dims = dims<>>
[[nodiscard]] auto random_int(graph& g, T low, T high, random_options options = {}) {
  static_assert(correct<detail::random_int_mistake<T, Dims>>,
                "random_int: needs extents, dims<...>, and elements of an integer type: random_int<std::int32_t, "
                "dims<3>>(g, 0, 10)");
  if constexpr (correct<detail::random_int_mistake<T, Dims>>) {
    using number = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    if (!(low < high))
      throw error(error_code::invalid_argument, "random_int",
                  {"low must be less than high, but low is ", number{low}, " and high is ", number{high}});
    return detail::random_node<random_int_op, T, Dims, std::int64_t>(g, static_cast<std::int64_t>(low),
                                                                     static_cast<std::int64_t>(high), options);
  } else {
    return node<T>(symbol());
  }
}

template <class... Types, class... X>
  requires(!detail::draws_random<std::tuple<Types...>, X...>)
auto random_uniform(X&&...) {
  static_assert(correct<detail::random_arguments_are_not_taken<std::remove_cvref_t<X>...>>,
                "random_uniform: write random_uniform<float, dims<3, 4>>(graph, low, high)");
  return node<float>(symbol());
}
template <Element T, auto... Extents, class... X>
  requires(sizeof...(Extents) > 0)
auto random_uniform(X&&...) {
  static_assert(correct<detail::random_arguments_are_not_taken<dims<Extents...>>>,
                "random_uniform: write random_uniform<float, dims<3, 4>>(graph, low, high)");
  return node<float>(symbol());
}
template <class... Types, class... X>
  requires(!detail::draws_random<std::tuple<Types...>, X...>)
auto random_normal(X&&...) {
  static_assert(correct<detail::random_arguments_are_not_taken<std::remove_cvref_t<X>...>>,
                "random_normal: write random_normal<float, dims<3, 4>>(graph, mean, stddev)");
  return node<float>(symbol());
}
template <Element T, auto... Extents, class... X>
  requires(sizeof...(Extents) > 0)
auto random_normal(X&&...) {
  static_assert(correct<detail::random_arguments_are_not_taken<dims<Extents...>>>,
                "random_normal: write random_normal<float, dims<3, 4>>(graph, mean, stddev)");
  return node<float>(symbol());
}

template <class... Types, class... X>
  requires(!detail::draws_random<std::tuple<Types...>, X...>)
auto random_int(X&&...) {
  static_assert(correct<detail::random_arguments_are_not_taken<std::remove_cvref_t<X>...>>,
                "random_int: write random_int<std::int32_t, dims<3, 4>>(graph, low, high)");
  return node<std::int32_t>(symbol());
}
template <Element T, auto... Extents, class... X>
  requires(sizeof...(Extents) > 0)
auto random_int(X&&...) {
  static_assert(correct<detail::random_arguments_are_not_taken<dims<Extents...>>>,
                "random_int: write random_int<std::int32_t, dims<3, 4>>(graph, low, high)");
  return node<std::int32_t>(symbol());
}

template <class...>
auto random_int(detail::anything, ...) WEFT_DELETED;  // random_int<std::int32_t, dims<3>>(g, low, high, {.seed = 7})
template <class...>
auto random_uniform(detail::anything, ...) WEFT_DELETED;  // random_uniform<float, dims<3>>(g, low, high, {.seed = 7})
template <class...>
auto random_truncated_normal(...) WEFT_DELETED;  // random_truncated_normal<float, dims<3>>(g, mean, stddev)
template <class...>
auto random_normal(detail::anything, ...) WEFT_DELETED;  // random_normal<float, dims<3>>(g, mean, stddev, {.seed = 7})

}  // namespace weft
