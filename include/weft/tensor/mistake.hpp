#pragma once

#include <initializer_list>
#include <type_traits>

#include <weft/tensor/dims.hpp>

// Ends the declaration of an overload that takes the calls that no other overload takes:
//
//     auto f(...) WEFT_DELETED;  // how f is called
//
// The compiler prints that line with its comment, and no candidates. C's ellipsis takes braces too, which templates do
// not deduce, and every other overload is a better match. clang lists all candidates beside a deleted function, but
// none beside a function without a body whose return type it would have to deduce.
#if defined(__clang__)
  #define WEFT_DELETED
#else
  #define WEFT_DELETED = delete
#endif

namespace weft {

/// Base of the predicates that are named for a mistake: `value` says that it was made. Compilers print the predicate,
/// with its arguments, where `static_assert(correct<...>)` fails; the shapes are those arguments.
template <bool Made>
struct mistake {
  static constexpr bool value = Made;  ///< whether the mistake was made
};

/// Whether a call does not make the mistake: `static_assert(correct<axis_out_of_range<D, Axis>>, "...")`.
template <class Mistake>
inline constexpr bool correct = !Mistake::value;

namespace detail {

// What is asked of each operand of each expression instantiates no class of the standard library, nor one of its own.

/// A number of C++. A class is none, whichever it is.
template <class X>
concept Arithmetic = (!__is_class(X)) && std::is_arithmetic_v<X>;

/// `choose<Condition>::template type<A, B>`: as std::conditional_t.
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

/// The first of several mistakes that was made; mistake<false> if none was.
template <class... Mistakes>
using first_mistake = decltype(detail::find_first_mistake<Mistakes...>());

namespace detail {

/// Any argument, in braces too: of overloads that say what to write instead.
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

/// A function is called with other arguments than it takes, or with other template arguments. The shape is the first
/// argument's, the numbers are the template arguments.
template <class Dims, auto... Given>
struct arguments_are_not_taken : mistake<true> {};

/// Extents are a dims: at most 8 integers that are not negative, and names of those known at run time only.
template <class Dims>
struct extents_are_not_valid : mistake<!detail::is_valid_dims<Dims>> {};

/// A value of several elements is used as one number.
template <class Dims>
struct value_is_not_one_number : mistake<true> {};

/// A value of a graph is used as a number or a tensor: it has a value when a session runs.
template <class Dims>
struct value_needs_a_session : mistake<true> {};

template <class Dims, bool Symbolic>
using number_mistake = std::conditional_t<Symbolic, value_needs_a_session<Dims>, value_is_not_one_number<Dims>>;

/// The element types differ; `cast<T>(x)` converts.
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

/// A value is assigned to something of other extents. Dynamic ones are compared at run time.
template <class From, class To>
struct assigned_extents_differ : mistake<!detail::assignable(From::spec, To::spec)> {};

/// The mistake in an assignment, if there is one.
template <class FromType, class From, class ToType, class To>
using assignment_mistake =
    std::conditional_t<assigned_extents_differ<From, To>::value, assigned_extents_differ<From, To>,
                       element_types_differ<FromType, ToType>>;

}  // namespace weft
