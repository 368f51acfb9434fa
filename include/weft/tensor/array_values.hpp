// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <weft/tensor/check_extents.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/mistake.hpp>

/// Values to create a tensor from: in braces, in ranges, and in nested ranges.
namespace weft {

namespace detail {

/// Matches braces, but arrays are a better match; std::initializer_list would not be a worse match than arrays.
struct values_in_braces {
  constexpr values_in_braces(braces = {}) {}
};

template <std::size_t... Rows, class... Inner>
shape extents_in_braces(Inner... inner) {
  constexpr std::size_t lengths[] = {Rows...};
  return shape(sizeof...(Rows), lengths[0], inner...);
}

/// A number, or an object that stores elements: a vector, an array, a span, a pointer, a matrix of another library.
template <class X>
concept Foreign = (!Expression<X>) &&
                  (std::is_arithmetic_v<X> || std::is_pointer_v<X> || requires(const X& x) { x.data(), x.size(); });

/// A range of known size: a vector, a list, an array, a span, a view of <ranges>.
template <class X>
concept SizedRange = (!Expression<std::remove_cvref_t<X>>) && requires(X& x) {
  std::begin(x);
  std::end(x);
  std::size(x);
};

/// The element type of nested ranges, and their depth.
template <class X>
struct nested_range {
  using value_type = X;
  static constexpr std::size_t depth = 0;
};
template <SizedRange X>
struct nested_range<X> {
  using next = nested_range<std::iter_value_t<decltype(std::begin(std::declval<X&>()))>>;
  using value_type = typename next::value_type;
  static constexpr std::size_t depth = next::depth + 1;
};

/// True if a value can become an element. Excludes fractions for integers, and text.
template <class X, class T>
inline constexpr bool becomes_element =
    std::is_same_v<X, T> || (std::is_arithmetic_v<X> && !std::is_same_v<X, char> && std::is_constructible_v<T, X> &&
                             !(std::is_floating_point_v<X> && std::is_integral_v<T>));

/// The number of elements of an array type; -1 for other types.
template <class X>
inline constexpr std::int64_t fixed_size = -1;
template <class X, std::size_t Rows>
inline constexpr std::int64_t fixed_size<X[Rows]> = Rows;
template <class X>
  requires requires { std::bool_constant<(std::tuple_size<X>::value > 0)>(); }
inline constexpr std::int64_t fixed_size<X> = std::tuple_size<X>::value;

/// Reads the extents of nested ranges from the first range along each axis. Axes below an empty range keep the values
/// in `extents`.
template <std::size_t Axis, class X>
void read_extents(X& values, shape& extents) {
  extents[Axis] = static_cast<std::int64_t>(std::size(values));
  if constexpr (nested_range<X>::depth > 1) {
    for (auto&& v : values) {
      read_extents<Axis + 1>(v, extents);
      break;
    }
  }
}

/// Copies nested ranges. Throws if a range has a different length from the first along its axis.
template <std::size_t Axis, class T, class X>
T* copy_ranges(X& values, const shape& extents, std::int64_t* indices, T* to) {
  if (std::size(values) != static_cast<std::size_t>(extents[Axis]))
    refuse_ragged(indices, Axis, std::size(values), extents[Axis]);
  indices[Axis] = 0;
  for (auto&& v : values) {
    if constexpr (nested_range<X>::depth > 1) {
      to = copy_ranges<Axis + 1>(v, extents, indices, to);
      ++indices[Axis];
    } else {
      *to++ = static_cast<T>(v);
    }
  }
  return to;
}

template <class Dims, std::size_t... Lengths>
constexpr bool rows_fit() {
  constexpr std::size_t lengths[] = {Lengths...};
  const auto fits = [](std::size_t given, std::int64_t extent) {
    return extent < 0 || given == static_cast<std::size_t>(extent);
  };
  bool fit = fits(sizeof...(Lengths), Dims::spec[0]);
  for (const std::size_t length : lengths) fit = fit && length == lengths[0] && fits(length, Dims::spec[1]);
  return fit;
}

}  // namespace detail

/// A tensor must be created from values in braces, from extents, `shape(...)`, from a range of values, from a
/// tensor_view or from an expression.
template <class X>
struct tensor_is_not_made_of : mistake<true> {};

/// Values in braces require static extents. Otherwise pass the extents before the values.
template <class Dims>
struct values_need_extents : mistake<!Dims::is_static> {};

/// Values in braces must be one row-major list, or nested like the extents.
template <class Dims>
struct nesting_differs : mistake<true> {};

/// The number and lengths of rows in braces must match the extents. `Lengths` are the lengths of the rows.
template <class Dims, std::size_t... Lengths>
struct rows_do_not_fit : mistake<!detail::rows_fit<Dims, Lengths...>()> {};

/// The number of elements of an array must match the extents.
template <class Dims, std::int64_t Given>
struct number_of_values_differs
    : mistake<Given >= 0 && Dims::is_static && Given != static_cast<std::int64_t>(Dims::spec.elements())> {};

namespace detail {

template <class X, class T, class Dims>
constexpr auto find_values_mistake() {
  using values = nested_range<X>;
  if constexpr (!SizedRange<X>)
    return tensor_is_not_made_of<X>{};
  else if constexpr (!becomes_element<typename values::value_type, T>)
    return element_types_differ<typename values::value_type, T>{};
  else if constexpr (values::depth == Dims::rank)
    return number_of_values_differs<Dims, Dims::rank == 1 ? fixed_size<X> : -1>{};
  else if constexpr (values::depth != 1)
    return nesting_differs<Dims>{};
  else
    return first_mistake<values_need_extents<Dims>, number_of_values_differs<Dims, fixed_size<X>>>{};
}

/// The mistake in a range from which a tensor is created, if any.
template <class X, class T, class Dims>
using values_mistake = decltype(find_values_mistake<X, T, Dims>());

}  // namespace detail

}  // namespace weft
