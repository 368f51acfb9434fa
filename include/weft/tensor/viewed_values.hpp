// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <weft/tensor/array_values.hpp>
#include <weft/tensor/check_extents.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/mistake.hpp>

/// Sources of a view's elements: vectors, arrays, spans, tensors, and matrices of other libraries.
namespace weft {

/// A view of a temporary would outlive its elements.
template <class X>
struct view_of_a_temporary : mistake<true> {};

/// Const elements cannot be written or viewed for writing.
template <class X>
struct elements_are_read_only : mistake<true> {};

/// A view requires a row-major matrix; this matrix of another library is column-major.
template <class X>
struct matrix_is_column_major : mistake<true> {};

/// A view must be created from a pointer, with extents if they are dynamic, or from an object with contiguous elements.
template <class X>
struct view_is_not_made_of : mistake<true> {};

namespace detail {

/// A matrix of another library that reports its storage order, such as Eigen's.
template <class X>
concept Matrix = requires(X& x) {
  x.rows();
  x.cols();
  x.data();
  std::bool_constant<static_cast<bool>(std::remove_cv_t<X>::IsRowMajor)>();
};

/// Returns true for a row-major matrix, and for one with a single row or column, which both orders store alike.
template <class X>
constexpr bool is_row_major() {
  if constexpr (requires { std::bool_constant<static_cast<bool>(X::IsVectorAtCompileTime)>(); })
    return static_cast<bool>(X::IsRowMajor) || static_cast<bool>(X::IsVectorAtCompileTime);
  else
    return static_cast<bool>(X::IsRowMajor);
}

template <class X, class Dims>
constexpr auto find_matrix_mistake() {
  if constexpr (!is_row_major<X>())
    return matrix_is_column_major<X>{};
  else if constexpr (Dims::rank == 2)
    return assigned_extents_differ<dims<dyn<"rows">, dyn<"columns">>, Dims>{};
  else
    return mistake<false>{};
}

/// Finds the mistake in the argument of a view. X is the type that a forwarding reference deduces.
template <class X, class T, class Dims, bool WithExtents>
constexpr auto find_view_mistake() {
  using R = std::remove_reference_t<X>;
  using V = std::remove_cv_t<R>;
  if constexpr (requires(R& x) { std::data(x); }) {
    using Given = std::remove_pointer_t<decltype(std::data(std::declval<R&>()))>;
    if constexpr (!std::is_same_v<std::remove_const_t<Given>, std::remove_const_t<T>>)
      return element_types_differ<std::remove_const_t<Given>, std::remove_const_t<T>>{};
    else if constexpr (std::is_const_v<Given> && !std::is_const_v<T>)
      return elements_are_read_only<R>{};
    else if constexpr (!std::is_reference_v<X> && !std::ranges::enable_borrowed_range<V>)
      return view_of_a_temporary<V>{};
    else if constexpr (WithExtents)
      return mistake<false>{};
    else if constexpr (Expression<V>)
      return assigned_extents_differ<dims_t<V>, Dims>{};
    else if constexpr (Matrix<R>)
      return find_matrix_mistake<V, Dims>();
    else if constexpr (requires(R& x) { std::size(x); } && (Dims::is_static || Dims::rank == 1))
      return number_of_values_differs<Dims, fixed_size<V>>{};
    else
      return view_is_not_made_of<V>{};
  } else {
    return view_is_not_made_of<V>{};
  }
}
template <class X, class T, class Dims, bool WithExtents = false>
using view_mistake = decltype(find_view_mistake<X, T, Dims, WithExtents>());

/// Returns the extents of a view of all elements of `x`.
template <class Dims, class X>
shape viewed_extents(X& x) {
  if constexpr (Expression<X>) {
    return x.extents();
  } else if constexpr (Matrix<X> && Dims::rank == 2) {
    const auto rows = static_cast<std::int64_t>(x.rows()), columns = static_cast<std::int64_t>(x.cols());
    if constexpr (requires { x.innerStride(), x.outerStride(); }) {
      const std::int64_t inner = x.innerStride(), outer = x.outerStride();
      const bool one_column = !std::remove_cv_t<X>::IsRowMajor && columns == 1;
      check_strides(shape(rows, columns), inner, one_column ? inner : outer);
    }
    return shape(rows, columns);
  } else {
    const auto size = static_cast<std::int64_t>(std::size(x));
    if constexpr (requires { x.innerStride(); }) check_strides(shape(size, 1), 1, x.innerStride());
    shape s = Dims::spec;
    if constexpr (Dims::rank == 1) s[0] = size;
    if (size != static_cast<std::int64_t>(s.elements())) refuse_count("tensor_view", std::size(x), s);
    return s;
  }
}

}  // namespace detail

}  // namespace weft
