// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/aliases.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/extent_values.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

/// Returns the same elements, in row-major order, with other extents (tf.reshape): `reshape<dims<dyn<"batch">,
/// 784>>(x)`. Extents may be computed: `reshape<dims<dyn<"b"> * dyn<"t">, 8>>(x)` of `[b, t, 8]`, and back. One extent
/// may be -1, which is inferred: `reshape<dims<-1, 8>>(x)` is also `[b * t, 8]`. Throws invalid_argument if the
/// inferred extent is not an integer, and failed_precondition in a step in which nothing determines a named extent.
template <class To, Expression Expr>
[[nodiscard]] auto reshape(const Expr& e);

/// Reshapes tensors to extents that the operand does not determine: for `[b * t, 8]`, `reshape<dims<dyn<"b">, dyn<"t">,
/// 8>>(x, shape(2, 3, 8))`. Throws invalid_argument if they do not fit.
template <class To, Expression Expr>
  requires(!Expr::symbolic)
[[nodiscard]] auto reshape(const Expr& e, const shape& extents);

namespace detail {

/// Returns the axis whose extent is inferred, or the rank if all extents are given.
constexpr std::size_t inferred_axis(const shape& to) {
  std::size_t j = 0;
  while (j < to.rank && to[j] != inferred) ++j;
  return j;
}

/// The extents that occur on only one side: dynamic ones, one bit for each axis, and the product of the numbers.
struct unmatched_extents {
  std::uint32_t from = 0, to = 0;
  std::int64_t from_number = 1, to_number = 1;
};
constexpr unmatched_extents match_extents(const shape& from, const shape& to) {
  unmatched_extents left;
  for (std::size_t j = 0; j < to.rank; ++j)
    if (to[j] >= 0)
      left.to_number *= to[j];
    else if (to[j] != inferred)
      left.to |= std::uint32_t{1} << j;
  for (std::size_t i = 0; i < from.rank; ++i) {
    if (from[i] >= 0) {
      left.from_number *= from[i];
      continue;
    }
    std::size_t j = 0;
    while (j < to.rank && !(((left.to >> j) & 1) && to[j] == from[i])) ++j;
    if (j < to.rank)
      left.to &= ~(std::uint32_t{1} << j);
    else
      left.from |= std::uint32_t{1} << i;
  }
  return left;
}

/// The dividend and the divisor of an inferred extent, with numbers reduced by their greatest common divisor.
constexpr unmatched_extents match_reduced(const shape& from, const shape& to) {
  unmatched_extents left = match_extents(from, to);
  std::int64_t common = left.from_number, rest = left.to_number;
  while (rest != 0) {
    const std::int64_t next = common % rest;
    common = rest, rest = next;
  }
  if (common != 0) left.from_number /= common, left.to_number /= common;
  return left;
}

/// Returns a number times the extents selected by the bits.
constexpr extent_definition number_of_elements(std::int64_t number, std::uint32_t axes,
                                               const extent_definition* const* each, bool& fits) {
  extent_definition product;
  fits = add_term(product, {number, {}});
  for (std::size_t i = 0; fits && i < max_rank; ++i)
    if ((axes >> i) & 1) product = product_of_extents(product, *each[i], fits);
  finish_extent(product);
  return product;
}

template <class From, class To>
constexpr bool reshapes() {
  if constexpr (inferred_axis(To::spec) < To::rank) {
    constexpr unmatched_extents left = match_reduced(From::spec, To::spec);
    return left.to_number != 0 && (left.from != 0 || left.to != 0 || left.to_number == 1);
  } else {
    constexpr unmatched_extents left = match_extents(From::spec, To::spec);
    if constexpr (left.from == 0 && left.to == 0) return left.from_number == left.to_number;
    bool from_fits = true, to_fits = true;
    const auto from = number_of_elements(left.from_number, left.from, definitions_of<From>, from_fits);
    const auto to = number_of_elements(left.to_number, left.to, definitions_of<To>, to_fits);
    return from_fits && to_fits && from.code == to.code;
  }
}

template <class Dims, std::uint32_t Axes, class Product>
constexpr auto times_axes(Product p) {
  if constexpr (Axes == 0) {
    return p;
  } else {
    constexpr std::size_t axis = static_cast<std::size_t>(__builtin_ctz(Axes));
    if constexpr (Product::code == 1)
      return times_axes<Dims, (Axes & (Axes - 1))>(extent_of<Dims, axis>());
    else
      return times_axes<Dims, (Axes & (Axes - 1))>(p * extent_of<Dims, axis>());
  }
}
template <class Dims, std::uint32_t Axes, std::int64_t Number>
constexpr auto product_of_axes() {
  constexpr auto named = times_axes<Dims, Axes>(extent<1>);
  if constexpr (Number == 1)
    return named;
  else if constexpr (Axes == 0)
    return extent<Number>;
  else
    return named * extent<Number>;
}
template <class From, class To>
constexpr auto inferred_extent() {
  constexpr unmatched_extents left = match_reduced(From::spec, To::spec);
  constexpr auto all = product_of_axes<From, left.from, left.from_number>();
  constexpr auto said = product_of_axes<To, left.to, left.to_number>();
  if constexpr (said.code == 1)
    return all;
  else
    return all / said;
}
template <class From, class To>
constexpr auto reshaped_dims() {
  constexpr std::size_t axis = inferred_axis(To::spec);
  if constexpr (axis == To::rank)
    return To{};
  else
    return with_extent<To, axis, inferred_extent<From, To>()>{};
}

}  // namespace detail

/// A reshape must keep the number of elements, which the compiler checks for named extents as well.
template <class From, class To>
struct reshape_changes_elements : mistake<!detail::reshapes<From, To>()> {};

/// Over tensors, at most one extent of the result may be unknown from the operand's extents; it follows from the
/// others.
template <class From, class To>
struct reshaped_extents_are_unknown : mistake<(detail::count_unknown<From, To>() > 1)> {};

namespace detail {

template <class Dims>
inline constexpr bool is_valid_but_for_one = false;
template <auto... Extents>
inline constexpr bool is_valid_but_for_one<dims<Extents...>> =
    sizeof...(Extents) <= max_rank && ((code(Extents) == inferred) + ... + 0) == 1 &&
    ((code(Extents) == inferred || is_extent(Extents)) && ...);

template <class From, class To>
constexpr auto find_reshape_mistake() {
  if constexpr (extents_are_not_valid<To>::value && !is_valid_but_for_one<To>)
    return extents_are_not_valid<To>{};
  else
    return reshape_changes_elements<From, To>{};
}

}  // namespace detail

/// The first mistake in a reshape, if any.
template <class From, class To>
using reshape_mistake = decltype(detail::find_reshape_mistake<From, To>());

namespace detail {

template <class From, class To, bool Symbolic>
constexpr auto find_unknown_extents() {
  if constexpr (Symbolic || !correct<reshape_mistake<From, To>>)
    return mistake<false>{};
  else
    return reshaped_extents_are_unknown<From, decltype(reshaped_dims<From, To>())>{};
}
template <class From, class To, bool Symbolic>
using unknown_extents = decltype(find_unknown_extents<From, To, Symbolic>());

/// Returns the extents `to` as numbers, derived from a tensor's extents; an unknown extent follows from the number of
/// elements.
shape reshaped_extents(const shape& from, const shape& codes, const shape& to, const extent_definition* const* each);
void check_elements_kept(const shape& from, const shape& to);

#if WEFT_DEFINITIONS

WEFT_COLD_BEGIN

WEFT_DECL void check_elements_kept(const shape& from, const shape& to) {
  if (from.elements() != to.elements())
    throw error(error_code::invalid_argument, "reshape",
                {"the number of elements must stay equal, but ", to_string(from), " has ", from.elements(), " and ",
                 to_string(to), " has ", to.elements()});
}

WEFT_DECL shape reshaped_extents(const shape& from, const shape& codes, const shape& to,
                                 const extent_definition* const* each) {
  shape extents = told_extents(from, codes, to, each);
  const std::size_t unknown = inferred_axis(extents);
  if (unknown < to.rank) {
    extents[unknown] = 1;
    const std::size_t others = extents.elements();
    if (others == 0)
      throw error(error_code::invalid_argument, "reshape",
                  {"the extent ", each[unknown]->text, " cannot be inferred from an empty tensor: pass all extents, ",
                   "reshape<dims<...>>(x, shape(...))"});
    extents[unknown] = static_cast<std::int64_t>(from.elements() / others);
  }
  check_elements_kept(from, extents);
  return extents;
}

WEFT_COLD_END

#endif

}  // namespace detail

template <class To, Expression Expr>
auto reshape(const Expr& e) {
  using From = dims_t<Expr>;
  using mistake = reshape_mistake<From, To>;
  using unknown = detail::unknown_extents<From, To, Expr::symbolic>;
  static_assert(correct<mistake>,
                "reshape: needs extents, dims<...>, with the same number of elements; at most one can be -1");
  static_assert(correct<unknown>,
                "reshape: for tensors, pass the extents known at run time: reshape<dims<...>>(x, shape(2, 3))");
  if constexpr (!correct<first_mistake<mistake, unknown>>) {
    return detail::after_mistake<value_t<Expr>, From>(e);
  } else {
    using D = decltype(detail::reshaped_dims<From, To>());
    const auto x = materialize(e);
    if constexpr (Expr::symbolic) detail::remember_extents<D>(*x.erased().builder());
    if constexpr (Expr::symbolic || (D::is_static && From::is_static))
      return detail::under_extents<D>(x, D::spec);
    else
      return detail::under_extents<D>(
          x, detail::reshaped_extents(x.extents(), From::spec, D::spec, detail::definitions_of<D>));
  }
}

template <class To, Expression Expr>
  requires(!Expr::symbolic)
auto reshape(const Expr& e, const shape& extents) {
  static_assert(correct<extents_are_not_valid<To>>, "reshape: needs extents, dims<...>, and their values, shape(...)");
  if constexpr (!correct<extents_are_not_valid<To>>) {
    return detail::after_mistake<value_t<Expr>, dims_t<Expr>>(e);
  } else {
    const auto x = eval(e);
    detail::check_fits("reshape", To::spec, To::names, extents);
    detail::check_elements_kept(x.extents(), extents);
    return detail::under_extents<To>(x, extents);
  }
}

}  // namespace weft
