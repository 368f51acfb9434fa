// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/tensor/tensor.hpp>

/// Tensors that depend only on their extents. The same functions with a graph as first argument create graph values
/// (graph/fill.hpp). If `Dims` has dynamic extents, pass all extents: `zeros<float, dims<dyn<"batch">, 3>>(shape(7,
/// 3))` throws invalid_argument if they do not match `Dims`.
namespace weft {

/// Zeros (tf.zeros, numpy.zeros): `zeros<float, dims<2, 3>>()`.
template <Element T, class Dims = dims<>>
[[nodiscard]] tensor<T, Dims> zeros();
template <Element T, class Dims>
[[nodiscard]] tensor<T, Dims> zeros(const shape& extents);

/// Ones (tf.ones, numpy.ones).
template <Element T, class Dims = dims<>>
[[nodiscard]] tensor<T, Dims> ones();
template <Element T, class Dims>
[[nodiscard]] tensor<T, Dims> ones(const shape& extents);

/// The same number in all elements (tf.fill, numpy.full): `fill<float, dims<2, 3>>(0.5f)`.
template <Element T, class Dims = dims<>, class Num>
[[nodiscard]] tensor<T, Dims> fill(Num number);
template <Element T, class Dims, class Num>
[[nodiscard]] tensor<T, Dims> fill(Num number, const shape& extents);

/// The identity matrix, `[rows, columns]`: ones where both indices are equal, zeros elsewhere (tf.eye, numpy.eye).
template <Element T, class Dims>
[[nodiscard]] tensor<T, Dims> eye();
template <Element T, class Dims>
[[nodiscard]] tensor<T, Dims> eye(const shape& extents);

/// Dynamic extents require the overload that takes a shape.
template <class Dims>
struct extents_are_not_given : mistake<!Dims::is_static> {};

/// The mistake in the extents or the number of a filled value.
template <class Dims, class Num>
struct filled_with_no_number : mistake<!std::is_arithmetic_v<Num> && !is_storage_type<Num>> {};
template <class Dims, class Num = int>
using fill_mistake = first_mistake<extents_are_not_valid<Dims>, filled_with_no_number<Dims, Num>>;

/// eye requires a matrix: two extents.
template <class Dims>
struct identity_is_not_a_matrix : mistake<Dims::rank != 2> {};

template <Element T, class Dims>
tensor<T, Dims> zeros() {
  static_assert(correct<extents_are_not_given<Dims>>, "zeros: pass the run-time extents, as in (shape(7, 3))");
  return tensor<T, Dims>();
}
template <Element T, class Dims>
tensor<T, Dims> zeros(const shape& extents) {
  return tensor<T, Dims>(extents);
}

template <Element T, class Dims>
tensor<T, Dims> ones() {
  static_assert(correct<extents_are_not_given<Dims>>, "ones: pass the run-time extents, as in (shape(7, 3))");
  return weft::fill<T, Dims>(1, Dims::spec);
}
template <Element T, class Dims>
tensor<T, Dims> ones(const shape& extents) {
  return weft::fill<T, Dims>(1, extents);
}

template <Element T, class Dims, class Num>
tensor<T, Dims> fill(Num number) {
  static_assert(correct<extents_are_not_given<Dims>>, "fill: pass the extents known at run time: (0.5f, shape(7, 3))");
  return weft::fill<T, Dims>(number, Dims::spec);
}
template <Element T, class Dims, class Num>
tensor<T, Dims> fill(Num number, const shape& extents) {
  using mistake = fill_mistake<Dims, Num>;
  static_assert(correct<mistake>, "fill<T, dims<...>>(number): the extents must be a dims, and the value a number");
  tensor<T, Dims> made(extents, uninitialized{});
  if constexpr (correct<mistake>) made.fill(static_cast<T>(number));
  return made;
}

template <Element T, class Dims>
tensor<T, Dims> eye() {
  static_assert(correct<extents_are_not_given<Dims>>, "eye: pass the run-time extents, as in (shape(3, 3))");
  static_assert(correct<identity_is_not_a_matrix<Dims>>, "eye<T, dims<rows, columns>>(): needs two extents");
  if constexpr (correct<identity_is_not_a_matrix<Dims>>)
    return weft::eye<T, Dims>(Dims::spec);
  else
    return tensor<T, Dims>();
}
template <Element T, class Dims>
tensor<T, Dims> eye(const shape& extents) {
  static_assert(correct<identity_is_not_a_matrix<Dims>>, "eye<T, dims<rows, columns>>(shape): needs two extents");
  tensor<T, Dims> made(extents);
  if constexpr (correct<identity_is_not_a_matrix<Dims>>)
    for (std::int64_t i = 0; i < made.extent(0) && i < made.extent(1); ++i) made(i, i) = static_cast<T>(1);
  return made;
}

}  // namespace weft
