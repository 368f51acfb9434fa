#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <weft/tensor/check_extents.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/mistake.hpp>

/// The values that a tensor is made of: in braces, in ranges, and in ranges of ranges.
namespace weft {

namespace detail {

/// Braces, as a worse match than an array, which std::initializer_list is not.
struct values_in_braces {
  constexpr values_in_braces(braces = {}) {}
};

template <std::size_t... Rows, class... Inner>
shape extents_in_braces(Inner... inner) {
  constexpr std::size_t lengths[] = {Rows...};
  return shape(sizeof...(Rows), lengths[0], inner...);
}

/// A number, or what has elements elsewhere: a vector, an array, a span, a pointer, a matrix of another library.
template <class X>
concept Foreign = (!Expression<X>) &&
                  (std::is_arithmetic_v<X> || std::is_pointer_v<X> || requires(const X& x) { x.data(), x.size(); });

/// What a range-based for loop walks and whose size is known: a vector, a list, an array, a span, a view of <ranges>.
template <class X>
concept SizedRange = (!Expression<std::remove_cvref_t<X>>) && requires(X& x) {
  std::begin(x);
  std::end(x);
  std::size(x);
};

/// The element of nested ranges, and how deep they are nested.
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

/// Whether a value may become an element: a fraction does not become an integer, nor a text numbers.
template <class X, class T>
inline constexpr bool becomes_element =
    std::is_same_v<X, T> || (std::is_arithmetic_v<X> && !std::is_same_v<X, char> && std::is_constructible_v<T, X> &&
                             !(std::is_floating_point_v<X> && std::is_integral_v<T>));

/// How many elements an array holds, as far as its type says: -1 elsewhere.
template <class X>
inline constexpr std::int64_t fixed_size = -1;
template <class X, std::size_t Rows>
inline constexpr std::int64_t fixed_size<X[Rows]> = Rows;
template <class X>
  requires requires { std::bool_constant<(std::tuple_size<X>::value > 0)>(); }
inline constexpr std::int64_t fixed_size<X> = std::tuple_size<X>::value;

/// Extents of nested ranges: the first range along each axis says it. `extents` has those of an empty one.
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

/// Copies nested ranges, which throws where one has another length than the first.
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

/// A tensor is made of values in braces, of its extents, `shape(...)`, of a range of values, of a tensor_view or of an
/// expression.
template <class X>
struct tensor_is_not_made_of : mistake<true> {};

/// Values in braces fill a tensor of extents known to the compiler, row after row; others are said first.
template <class Dims>
struct values_need_extents : mistake<!Dims::is_static> {};

/// Values in braces are one list, row after row, or nested as the extents are.
template <class Dims>
struct nesting_differs : mistake<true> {};

/// Rows in braces have other lengths than the extents say, or are more or fewer. `Lengths` are those of the rows.
template <class Dims, std::size_t... Lengths>
struct rows_do_not_fit : mistake<!detail::rows_fit<Dims, Lengths...>()> {};

/// An array has more or fewer elements than the extents say.
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

/// The mistake in a range that a tensor is made of, if there is one.
template <class X, class T, class Dims>
using values_mistake = decltype(find_values_mistake<X, T, Dims>());

}  // namespace detail

}  // namespace weft
