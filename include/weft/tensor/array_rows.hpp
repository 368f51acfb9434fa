// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/config.hpp>
#include <weft/tensor/check_extents.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/mistake.hpp>

/// Access to elements and rows of tensors and views by index.
namespace weft {

template <class T, class Dims>
class tensor_view;

namespace detail {

template <class X>
inline constexpr bool is_index = std::is_convertible_v<X, std::size_t> || std::is_enum_v<X>;

/// Returns the row-major offset of an element.
template <class... Index>
std::size_t offset(const shape& extents, Index... index) {
  std::size_t at = 0, axis = 0;
  if constexpr ((is_index<Index> && ...)) {  // not so after a mistake
#if WEFT_CHECKED
    const std::int64_t indices[] = {static_cast<std::int64_t>(index)..., 0};
    check_indices(extents, indices);
#endif
    ((at = at * static_cast<std::size_t>(extents[axis++]) + static_cast<std::size_t>(index)), ...);
  }
  return at;
}

/// Returns true if a constant index, a std::integral_constant, is out of range of an extent, as far as it is constant.
template <class Index>
constexpr bool is_beyond(std::int64_t extent) {
  if constexpr (requires { std::bool_constant<(Index::value < 0)>(); })
    return Index::value < 0 || (extent >= 0 && static_cast<std::int64_t>(Index::value) >= extent);
  else
    return false;
}
template <class Dims, class... Index>
constexpr bool any_is_beyond() {
  std::size_t axis = 0;
  return (is_beyond<Index>(Dims::spec[axis++]) || ... || false);
}

}  // namespace detail

/// A constant index, such as `std::integral_constant<int, 5>()`, must be in range.
template <class Dims, class... Index>
struct index_out_of_range : mistake<detail::any_is_beyond<Dims, Index...>()> {};

/// A scalar has no axis to index with brackets.
template <class Dims>
struct scalar_has_no_rows : mistake<Dims::rank == 0> {};

/// An element requires one integer index for each axis.
template <class Dims, class... Index>
struct indices_do_not_fit : mistake<sizeof...(Index) != Dims::rank || !(detail::is_index<Index> && ...)> {};

namespace detail {

/// Tag for views whose extents are known to be valid.
struct extents_are_checked {};

/// Returns the offset of row `i` in elements.
template <class Dims, class Index>
std::size_t row_offset(const shape& extents, Index i) {
  if constexpr (Dims::rank > 0) {
    static_assert(correct<index_out_of_range<Dims, Index>>,
                  "operator[]: each index must be less than the extent of its axis");
#if WEFT_CHECKED
    const auto index = static_cast<std::int64_t>(i);
    if (index < 0 || index >= extents[0]) check_indices(shape(extents[0]), &index);
#endif
    std::size_t elements = 1;
    for (std::size_t axis = 1; axis < Dims::rank; ++axis) elements *= static_cast<std::size_t>(extents[axis]);
    return static_cast<std::size_t>(i) * elements;
  } else {
    return 0;
  }
}

/// The view of a row. A writable one is const, so that `row = t[1]` writes the row, whereas assigning a moved view, as
/// std::sort does, is a mistake.
template <class T, class Dims>
using row_view = std::conditional_t<std::is_const_v<T>, tensor_view<T, Dims>, const tensor_view<T, Dims>>;

/// Returns a row as a view; for a vector, the element.
template <class Dims, class T>
decltype(auto) row_at(T* first, const shape& extents) {
  if constexpr (Dims::rank > 1)
    return row_view<T, without_axes<Dims, 1>>(first, row_extents(extents), extents_are_checked{});
  else
    return *first;
}

}  // namespace detail

}  // namespace weft
