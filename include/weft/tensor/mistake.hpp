#pragma once

#include <type_traits>

#include <weft/tensor/dims.hpp>

namespace weft {

/// Base of the predicates that are named for a mistake: `value` says that it was made. Compilers print the predicate,
/// with its arguments, where `static_assert(correct<...>)` fails; the shapes are those arguments.
template <bool Made>
struct mistake {
  static constexpr bool value = Made;
};

template <class Mistake>
inline constexpr bool correct = !Mistake::value;

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

/// What is wrong with an assignment, if anything is.
template <class FromType, class From, class ToType, class To>
using assignment_mistake =
    std::conditional_t<assigned_extents_differ<From, To>::value, assigned_extents_differ<From, To>,
                       element_types_differ<FromType, ToType>>;

}  // namespace weft
