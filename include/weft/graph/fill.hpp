// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/graph/leaves.hpp>
#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/arrays/range.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/tensor/fill.hpp>

/// Graph values that depend only on their extents. The size of a named extent comes from the fed values of a step or
/// from `g.set`; otherwise the step throws failed_precondition.
namespace weft {

/// Zeros (tf.zeros): `zeros<float, dims<dyn<"batch">, 100>>(g)`.
template <Element T, class Dims = dims<>>
[[nodiscard]] node<T, dims_t<Dims>> zeros(graph& g);

/// Ones (tf.ones).
template <Element T, class Dims = dims<>>
[[nodiscard]] node<T, dims_t<Dims>> ones(graph& g);

/// The same number in all elements (tf.fill): `fill<float, dims<dyn<"batch">>>(g, 0.5f)`. For a value that a step
/// computes, use `broadcast_to<dims<...>>(x)`.
template <Element T, class Dims = dims<>, class Num>
[[nodiscard]] node<T, dims_t<Dims>> fill(graph& g, Num number);

/// The identity matrix, `[rows, columns]` (tf.eye): `eye<float, dims<dyn<"n">, dyn<"n">>>(g)`.
template <Element T, class Dims>
[[nodiscard]] node<T, Dims> eye(graph& g);

/// The numbers `start`, `start + delta`, `start + 2 * delta`, ..., `[Extent]` (tf.range): `range<std::int32_t,
/// dyn<"time">>(g)` counts from 0. Integers wrap around.
template <class T, auto Extent>
[[nodiscard]] auto range(graph& g, T start = 0, T delta = 1);

/// The elements of a range must be numbers, and its extent must be valid.
template <class T>
struct range_elements_not_numbers : mistake<!std::is_arithmetic_v<T> || std::is_same_v<T, bool>> {};
template <class T, class Dims>
using range_mistake = first_mistake<extents_are_not_valid<Dims>, range_elements_not_numbers<T>>;

template <Element T, class Dims>
node<T, dims_t<Dims>> zeros(graph& g) {
  static_assert(correct<fill_mistake<Dims>>, "zeros<T, dims<...>>(g): needs extents, dims<...>");
  if constexpr (correct<fill_mistake<Dims>>)
    return detail::filled<T, Dims>(g, static_cast<T>(0));
  else
    return node<T, dims_t<Dims>>(symbol());
}
template <Element T, class Dims>
node<T, dims_t<Dims>> ones(graph& g) {
  static_assert(correct<fill_mistake<Dims>>, "ones<T, dims<...>>(g): needs extents, dims<...>");
  if constexpr (correct<fill_mistake<Dims>>)
    return detail::filled<T, Dims>(g, static_cast<T>(1));
  else
    return node<T, dims_t<Dims>>(symbol());
}

template <Element T, class Dims, class Num>
node<T, dims_t<Dims>> fill(graph& g, Num number) {
  using mistake = fill_mistake<Dims, Num>;
  static_assert(correct<mistake>,
                "fill<T, dims<...>>(g, number): the extents must be a dims; broadcast_to<dims<...>>(x) takes a node");
  if constexpr (correct<mistake>)
    return detail::filled<T, Dims>(g, static_cast<T>(number));
  else
    return node<T, dims_t<Dims>>(symbol());
}

template <class T, auto Extent>
auto range(graph& g, T start, T delta) {
  using D = dims<Extent>;
  using mistake = range_mistake<T, D>;
  static_assert(correct<mistake>,
                "range<T, extent>(g): T must be an integer type, float or double, and the extent a number or a name");
  if constexpr (correct<mistake>) {
    gpu::compile_kernels<range_op, T>();
    detail::remember_extents<D>(g);
    return node<T, dims_t<D>>(detail::record_range(g, {dtype_of<T>, D::spec}, start, delta));
  } else {
    return node<float, dims<1>>(symbol());
  }
}

template <Element T, class Dims>
node<T, Dims> eye(graph& g) {
  using mistake = first_mistake<extents_are_not_valid<Dims>, identity_is_not_a_matrix<Dims>>;
  static_assert(correct<mistake>, "eye<T, dims<rows, columns>>(g): needs two extents");
  if constexpr (correct<mistake>)
    return let(cast<T>(expand_dims<1>(range<std::int32_t, detail::extent_at<Dims, 0>::value>(g)) ==
                       range<std::int32_t, detail::extent_at<Dims, 1>::value>(g)));
  else
    return node<T, Dims>(symbol());
}

}  // namespace weft
