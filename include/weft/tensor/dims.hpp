// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/config.hpp>
#include <weft/tensor/extent.hpp>
#include <weft/tensor/shape.hpp>

namespace weft {

template <auto... Extents>
struct dims;

namespace detail {

// A separate template, because no specialization matches if g++ cannot deduce an extent, as in dims<dyn, 3>.
template <class Dims>
inline constexpr bool has_canonical_types = true;
template <auto... Extents>
inline constexpr bool has_canonical_types<dims<Extents...>> = (has_canonical_type<decltype(Extents)> && ...);

template <bool HasCanonicalTypes>
struct canonical_dims {
  template <auto... Extents>
  using type = dims<Extents...>;
};
template <>
struct canonical_dims<false> {
  template <auto... Extents>
  using type = dims<canonical<Extents>()...>;
};

}  // namespace detail

/// The extents of a tensor, outermost first, at most `max_rank`: `dims<784, 100>`, `dims<dyn<"batch">, 784>`, or
/// `dims<>` for a scalar. Functions that take a dims check it with `extents_are_not_valid`.
///
/// An extent may be an integer of any type, or an `extent_of`. Weft's results use the canonical form, `dims_type`:
/// ints, and sums such as `n + m` in a fixed order. A tensor or node with other dims is derived from the one with
/// canonical dims, so that the two can be assigned, returned and passed in place of each other.
template <auto... Extents>
struct dims {
  using dims_type = typename detail::canonical_dims<detail::has_canonical_types<dims>>::template type<Extents...>;
  static constexpr bool is_canonical = __is_same(dims, dims_type);
  static constexpr std::size_t rank = sizeof...(Extents);

  /// The extents; dynamic ones as negative codes.
  static constexpr shape spec = [] {
    shape s;
    if constexpr (rank <= max_rank) (s.push_back(detail::code(Extents)), ...);
    return s;
  }();
  static constexpr bool is_static = spec.is_static();
  static constexpr const char* names[rank + 1] = {detail::extent_name(Extents)..., nullptr};
  static constexpr bool is_computed = ((detail::extent_formula(Extents) != nullptr) || ...);
};

namespace detail {

/// The extent of an axis, and 1 for an axis that Dims does not have. The first axes are specialized, because a
/// recursion would be instantiated for every list of extents.
template <class Dims, std::size_t Index>
struct extent_at {
  static constexpr int value = 1;
};
template <auto A, auto... More>
struct extent_at<dims<A, More...>, 0> {
  static constexpr auto value = A;
};
template <auto A, auto B, auto... More>
struct extent_at<dims<A, B, More...>, 1> {
  static constexpr auto value = B;
};
template <auto A, auto B, auto C, auto... More>
struct extent_at<dims<A, B, C, More...>, 2> {
  static constexpr auto value = C;
};
template <auto A, auto B, auto C, auto D, auto... More>
struct extent_at<dims<A, B, C, D, More...>, 3> {
  static constexpr auto value = D;
};
template <auto A, auto B, auto C, auto D, auto... More, std::size_t Index>
  requires(Index > 3)
struct extent_at<dims<A, B, C, D, More...>, Index> : extent_at<dims<More...>, Index - 4> {};

/// The extents of A, followed by those of B.
template <class A, class B>
struct joined_dims {};
template <class A, class B, std::size_t Index>
  requires(Index < A::rank)
struct extent_at<joined_dims<A, B>, Index> : extent_at<A, Index> {};
template <class A, class B, std::size_t Index>
  requires(Index >= A::rank)
struct extent_at<joined_dims<A, B>, Index> : extent_at<B, Index - A::rank> {};

template <std::size_t... Index>
struct indices {};
template <std::size_t Count, std::size_t... Index>
struct make_indices : make_indices<Count - 1, Count - 1, Index...> {};
template <std::size_t... Index>
struct make_indices<0, Index...> {
  using type = indices<Index...>;
};

// The new extent is a type: nvcc repeats in generated code how a type was found, and cannot name an extent that is an
// object.
template <class Dims, std::size_t Axis, class Extent, class Indices>
struct with_extent_at;
template <class Dims, std::size_t Axis, class Extent, std::size_t... Index>
struct with_extent_at<Dims, Axis, Extent, indices<Index...>> {
  template <std::size_t Here>
  static constexpr auto extent() {
    if constexpr (Here == Axis)
      return canonical<Extent{}>();
    else
      return extent_at<Dims, Here>::value;
  }
  using type = dims<extent<Index>()...>;
};

/// The definitions of the extents; null for numbers.
template <class Dims>
inline constexpr const extent_definition* definitions_of[1] = {};
template <auto... Extents>
inline constexpr const extent_definition* definitions_of<dims<Extents...>>[sizeof...(Extents) + 1] = {
    definition_of<Extents>()..., nullptr};

}  // namespace detail

/// The extent of an axis, for computing other extents: `extent_of<D, 0>() + extent<1>`. For the number, use
/// `static_extent<D, 0>()`.
template <class Dims, std::size_t Axis>
constexpr auto extent_of() {
  return detail::operand_extent<detail::extent_at<Dims, Axis>::value>();
}

/// `Dims` with another extent along an axis. For `dims<dyn<"n">, 4>`, `with_extent<D, 0, extent_of<D, 0>() /
/// extent<2>>` halves the first extent.
template <class Dims, std::size_t Axis, auto Extent>
using with_extent =
    typename detail::with_extent_at<Dims, Axis, typename decltype(detail::operand_extent<Extent>())::type,
                                    typename detail::make_indices<Dims::rank>::type>::type;

namespace detail {

// ---- broadcasting ----

constexpr bool broadcastable(const shape& a, const shape& b) {
  const std::size_t common = a.rank < b.rank ? a.rank : b.rank;
  for (std::size_t i = 1; i <= common; ++i) {
    const auto x = a[a.rank - i], y = b[b.rank - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

template <class A, class B, std::size_t FromRight>
constexpr auto broadcast_extent() {
  if constexpr (FromRight > A::rank)
    return extent_at<B, B::rank - FromRight>::value;
  else if constexpr (FromRight > B::rank)
    return extent_at<A, A::rank - FromRight>::value;
  else if constexpr (A::spec[A::rank - FromRight] == 1)
    return extent_at<B, B::rank - FromRight>::value;
  else
    return extent_at<A, A::rank - FromRight>::value;
}

template <class A, class B, class Indices>
struct broadcast;
template <class A, class B, std::size_t... Index>
struct broadcast<A, B, indices<Index...>> {
  using type = dims<broadcast_extent<A, B, sizeof...(Index) - Index>()...>;
};

/// Returns true if broadcasting `b` to `a` leaves `a` unchanged.
constexpr bool takes_in(const shape& a, const shape& b) {
  if (b.rank > a.rank) return false;
  for (std::size_t i = 1; i <= b.rank; ++i)
    if (b[b.rank - i] != 1 && b[b.rank - i] != a[a.rank - i]) return false;
  return true;
}

template <class A, class B>
struct broadcast_result {
  static constexpr std::size_t rank = A::rank > B::rank ? A::rank : B::rank;
  using type = typename broadcast<A, B, typename make_indices<rank>::type>::type;
};
template <class A, class B>
  requires(takes_in(A::spec, B::spec))
struct broadcast_result<A, B> {
  using type = A;
};
template <class A, class B>
  requires(!takes_in(A::spec, B::spec) && takes_in(B::spec, A::spec))
struct broadcast_result<A, B> {
  using type = B;
};

// ---- selecting axes ----

/// A set of axes with one bit each; `invalid_axes` if an axis is out of range or repeated. Negative axes count from the
/// end.
inline constexpr std::uint32_t invalid_axes = ~std::uint32_t{0};

template <int... Axes>
constexpr std::uint32_t axis_mask(std::size_t rank) {
  constexpr int axes[] = {Axes..., 0};
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i != sizeof...(Axes); ++i) {
    const int axis = axes[i] < 0 ? axes[i] + static_cast<int>(rank) : axes[i];
    if (axis < 0 || axis >= static_cast<int>(rank) || (mask >> axis) & 1) return invalid_axes;
    mask |= std::uint32_t{1} << axis;
  }
  return mask;
}

template <class Dims, class Pick, class Indices>
struct select_extents;
template <class Dims, class Pick, std::size_t... Index>
struct select_extents<Dims, Pick, indices<Index...>> {
  using type = dims<extent_at<Dims, Pick::axis(Index)>::value...>;
};

/// The dims whose extent i is that of axis `Pick::axis(i)` of `Dims`, for i < `Count`; 1 for an axis beyond the last
/// one.
template <class Dims, std::size_t Count, class Pick>
using select = typename select_extents<Dims, Pick, typename make_indices<Count>::type>::type;

template <std::uint32_t Mask>
struct pick_kept {
  static constexpr std::size_t axis(std::size_t i) {
    std::size_t a = 0;
    while ((Mask >> a) & 1 || i-- != 0) ++a;
    return a;
  }
};

/// The same for numbers: of `from`, followed by those of `more`.
template <class Pick>
constexpr shape selected(std::size_t count, const shape& from, const shape& more = {}) {
  shape to;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = Pick::axis(i), beyond = axis - from.rank;
    to.push_back(axis < from.rank ? from[axis] : beyond < more.rank ? more[beyond] : 1);
  }
  return to;
}

/// `Dims` without the axes in `Mask`.
template <class Dims, std::uint32_t Mask>
using without_axes = select<Dims, Dims::rank - static_cast<std::size_t>(__builtin_popcount(Mask)), pick_kept<Mask>>;

}  // namespace detail

using detail::without_axes;

/// The extents of A and B after broadcasting by NumPy's rules.
template <class A, class B>
using broadcast_dims = typename detail::broadcast_result<A, B>::type;

/// True if T is a `dims<...>`.
template <class T>
inline constexpr bool is_dims = false;
template <auto... Extents>
inline constexpr bool is_dims<dims<Extents...>> = true;

}  // namespace weft
