#pragma once

#include <weft/ops/aliases.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

/// The same elements, in row-major order, under other extents: `reshape<dims<dyn<"batch">, 784>>(x)` (tf.reshape).
template <class To, Expression Expr>
[[nodiscard]] auto reshape(const Expr& e);

namespace detail {

constexpr bool reshapes(const shape& from, const shape& to) {
  // The dynamic extents must be the same on both sides; then the static elements must be as many.
  std::int64_t a = 1, b = 1;
  for (std::size_t i = 0; i < from.rank; ++i)
    if (from[i] >= 0) a *= from[i];
  for (std::size_t i = 0; i < to.rank; ++i)
    if (to[i] >= 0) b *= to[i];
  bool used[max_rank]{};
  std::size_t dynamic = 0;
  for (std::size_t i = 0; i < from.rank; ++i) {
    if (from[i] >= 0) continue;
    ++dynamic;
    bool found = false;
    for (std::size_t j = 0; j < to.rank && !found; ++j)
      if (!used[j] && to[j] == from[i]) found = used[j] = true;
    if (!found) return false;
  }
  for (std::size_t j = 0; j < to.rank; ++j)
    if (to[j] < 0) --dynamic;
  return a == b && dynamic == 0;
}

}  // namespace detail

/// A reshape keeps the number of elements, and every dynamic extent.
template <class From, class To>
struct reshape_changes_elements : mistake<!detail::reshapes(From::spec, To::spec)> {};

namespace detail {

template <class From, class To>
constexpr auto find_reshape_mistake() {
  if constexpr (extents_are_not_valid<To>::value)
    return extents_are_not_valid<To>{};
  else
    return reshape_changes_elements<From, To>{};
}

}  // namespace detail

/// What is wrong with a reshape, if anything is.
template <class From, class To>
using reshape_mistake = decltype(detail::find_reshape_mistake<From, To>());

template <class To, Expression Expr>
auto reshape(const Expr& e) {
  using From = dims_t<Expr>;
  using mistake = reshape_mistake<From, To>;
  static_assert(correct<mistake>,
                "reshape: needs extents, dims<...>, of as many elements and the same dynamic extents");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<value_t<Expr>, From>(e);
  } else if constexpr (Expr::symbolic) {
    return detail::make_node<value_t<Expr>, To, device_t<Expr>>(reshape(let(e).erased(), To::spec));
  } else {
    const auto x = eval(e);
    shape extents = To::spec;
    for (std::size_t i = 0; i < To::rank; ++i)
      for (std::size_t j = 0; j < From::rank; ++j)
        if (extents[i] < 0 && To::spec[i] == From::spec[j]) extents[i] = x.extent(j);
    return detail::make_tensor<value_t<Expr>, To, device_t<Expr>>(extents, x);
  }
}

}  // namespace weft
