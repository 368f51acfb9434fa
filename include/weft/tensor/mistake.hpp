// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <initializer_list>
#include <type_traits>

#include <weft/tensor/dims.hpp>

// Declares a catch-all overload for calls that no other overload accepts:
//
//     WEFT_OTHER_CALLS(f);  // how f is called
//
// The compiler prints this line with its comment, and no candidates. C's ellipsis also accepts braces, which templates
// cannot deduce, and every other overload is a better match. For a deleted function, clang lists all candidates; for a
// function without a body whose return type must be deduced, it lists none.
#include <weft/tensor/other_calls.inc>

#if defined(__clang__)
  #define WEFT_DELETED
#else
  #define WEFT_DELETED = delete
#endif

namespace weft {

/// Base of predicates named after a mistake: `value` is true if the mistake was made. If `static_assert(correct<...>)`
/// fails, compilers print the predicate with its arguments, such as the shapes.
template <bool Made>
struct mistake {
  static constexpr bool value = Made;  ///< true if the mistake was made
};

/// True if a call does not make the mistake: `static_assert(correct<axis_out_of_range<D, Axis>>, "...")`.
template <class Mistake>
inline constexpr bool correct = !Mistake::value;

namespace detail {

// Checks that run for each operand of each expression must not instantiate class templates, from the standard library
// or Weft.

/// An arithmetic type. The first test avoids instantiating the trait for classes.
template <class X>
concept Arithmetic = (!__is_class(X)) && std::is_arithmetic_v<X>;

/// `choose<Condition>::template type<A, B>`: like std::conditional_t.
template <bool Condition>
struct choose {
  template <class A, class B>
  using type = A;
};
template <>
struct choose<false> {
  template <class A, class B>
  using type = B;
};

template <class Mistake, class... More>
constexpr auto find_first_mistake() {
  if constexpr (correct<Mistake> && (correct<More> && ...))
    return mistake<false>{};
  else if constexpr (Mistake::value)
    return Mistake{};
  else
    return find_first_mistake<More...>();
}

}  // namespace detail

/// The first of several mistakes that was made, or mistake<false>.
template <class... Mistakes>
using first_mistake = decltype(detail::find_first_mistake<Mistakes...>());

namespace detail {

/// Accepts any argument, also in braces, for overloads that report the correct form.
struct anything {
  template <class... X>
  constexpr anything(const X&...) {}
};
using braces = std::initializer_list<anything>;

template <class Extent>
constexpr bool is_extent(Extent extent) {
  if constexpr (std::is_integral_v<Extent>)
    return extent >= Extent{};
  else if constexpr (__is_enum(Extent) && std::is_convertible_v<Extent, std::int64_t>)
    return extent >= 0;
  else
    return named_extent<Extent>;
}

template <class Dims>
inline constexpr bool is_valid_dims = false;
template <auto... Extents>
inline constexpr bool is_valid_dims<dims<Extents...>> = sizeof...(Extents) <= max_rank && (is_extent(Extents) && ...);

}  // namespace detail

/// The arguments or template arguments of a call are not accepted. The shape is that of the first argument; the numbers
/// are the template arguments.
template <class Dims, auto... Given>
struct arguments_are_not_taken : mistake<true> {};

/// Extents must be a dims: at most 8 non-negative integers or dynamic extents.
template <class Dims>
struct extents_are_not_valid : mistake<!detail::is_valid_dims<Dims>> {};

/// A value with several elements cannot be used as a number.
template <class Dims>
struct value_is_not_one_number : mistake<true> {};

/// A graph value cannot be used as a number or a tensor: it has a value only when a session runs.
template <class Dims>
struct value_needs_a_session : mistake<true> {};

template <class Dims, bool Symbolic>
using number_mistake = std::conditional_t<Symbolic, value_needs_a_session<Dims>, value_is_not_one_number<Dims>>;

/// Element types must be equal; `cast<T>(x)` converts.
template <class A, class B>
struct element_types_differ : mistake<!std::is_same_v<A, B>> {};

namespace detail {

constexpr bool assignable(const shape& from, const shape& to) {
  if (from.rank != to.rank) return false;
  for (std::size_t i = 0; i < from.rank; ++i)
    if (from[i] >= 0 && to[i] >= 0 && from[i] != to[i]) return false;
  return true;
}

}  // namespace detail

/// An assigned value must have the extents of the target. Dynamic extents are compared at run time.
template <class From, class To>
struct assigned_extents_differ : mistake<!detail::assignable(From::spec, To::spec)> {};

/// The mistake in an assignment, if any.
template <class FromType, class From, class ToType, class To>
using assignment_mistake =
    std::conditional_t<assigned_extents_differ<From, To>::value, assigned_extents_differ<From, To>,
                       element_types_differ<FromType, ToType>>;

}  // namespace weft
