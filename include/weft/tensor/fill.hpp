#pragma once

#include <weft/tensor/tensor.hpp>

/// Tensors that are made of their extents. The same functions make values of a graph where one is their first argument
/// (graph/fill.hpp).
namespace weft {

/// Extents known at run time are given.
template <class Dims>
struct extents_are_not_given : mistake<!Dims::is_static> {};

namespace detail {

template <class Dims>
const shape& known_extents() {
  static_assert(correct<extents_are_not_given<Dims>>,
                "a tensor's extents that are known at run time are given: zeros<T, dims<...>>(shape(7, 3))");
  return Dims::spec;
}

}  // namespace detail

/// Zeros (tf.zeros, numpy.zeros): `zeros<float, dims<2, 3>>()`; extents known at run time are given, all of them:
/// `zeros<float, dims<dyn<"batch">, 3>>(shape(7, 3))`. Throws invalid_argument if they do not fit `Dims`.
template <Element T, class Dims = dims<>>
[[nodiscard]] tensor<T, Dims> zeros(const shape& extents = detail::known_extents<Dims>());

/// Ones (tf.ones, numpy.ones).
template <Element T, class Dims = dims<>>
[[nodiscard]] tensor<T, Dims> ones(const shape& extents = detail::known_extents<Dims>());

/// One number for all elements (tf.fill, numpy.full): `fill<float, dims<2, 3>>(0.5f)`.
template <Element T, class Dims = dims<>, class Num>
[[nodiscard]] tensor<T, Dims> fill(Num number, const shape& extents = detail::known_extents<Dims>());

/// The identity matrix, `[rows, columns]`: ones where both indices are equal, zeros elsewhere (tf.eye, numpy.eye).
template <Element T, class Dims>
[[nodiscard]] tensor<T, Dims> eye(const shape& extents = detail::known_extents<Dims>());

/// The mistake in the extents of a filled value, or in the number.
template <class Dims, class Num>
struct filled_with_no_number : mistake<!std::is_arithmetic_v<Num> && !is_storage_type<Num>> {};
template <class Dims, class Num = int>
using fill_mistake = first_mistake<extents_are_not_valid<Dims>, filled_with_no_number<Dims, Num>>;

/// An identity is a matrix of two extents, and of numbers.
template <class Dims>
struct identity_is_not_a_matrix : mistake<Dims::rank != 2> {};

template <Element T, class Dims>
tensor<T, Dims> zeros(const shape& extents) {
  return tensor<T, Dims>(extents);
}
template <Element T, class Dims>
tensor<T, Dims> ones(const shape& extents) {
  return weft::fill<T, Dims>(1, extents);
}
template <Element T, class Dims, class Num>
tensor<T, Dims> fill(Num number, const shape& extents) {
  using mistake = fill_mistake<Dims, Num>;
  static_assert(correct<mistake>, "fill<T, dims<...>>(number): extents are a dims, and what fills them a number");
  tensor<T, Dims> made(extents, uninitialized{});
  if constexpr (correct<mistake>) made.fill(static_cast<T>(number));
  return made;
}
template <Element T, class Dims>
tensor<T, Dims> eye(const shape& extents) {
  static_assert(correct<identity_is_not_a_matrix<Dims>>, "eye<T, dims<rows, columns>>(): two extents");
  tensor<T, Dims> made(extents);
  if constexpr (correct<identity_is_not_a_matrix<Dims>>)
    for (std::int64_t i = 0; i < made.extent(0) && i < made.extent(1); ++i) made(i, i) = static_cast<T>(1);
  return made;
}

}  // namespace weft
