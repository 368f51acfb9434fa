// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/counted.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/elementwise/functions.hpp>

/// Masks of sequences. Not part of <weft/weft.hpp>.
namespace weft {

/// The lengths of sequences must be integers.
template <class T>
struct lengths_not_integers : mistake<!std::is_integral_v<T> || std::is_same_v<T, bool>> {};

/// Over tensors, the extent of the mask must be a number.
template <class Expr, class To>
struct mask_extent_is_unknown : mistake<!Expr::symbolic && !To::is_static> {};

/// Returns a mask of the first elements of sequences of `Extent` elements, from their lengths (tf.sequence_mask):
/// `sequence_mask<8>(lengths)` of `[batch]` is `[batch, 8]`, true at `(b, t)` if t < lengths(b). The mask has elements
/// of T, true or 1 and false or 0: `sequence_mask<dyn<"time">, float>(lengths)`. Lengths are integers, of tensors or
/// nodes; over tensors, the extent must be a number.
template <auto Extent, Element T = bool, Expression Expr>
[[nodiscard]] auto sequence_mask(const Expr& lengths) {
  using L = value_t<Expr>;
  using D = with_extent<dims<1>, 0, Extent>;
  using mistake = first_mistake<lengths_not_integers<L>, new_axis_out_of_range<dims_t<Expr>, -1>,
                                extents_are_not_valid<D>, mask_extent_is_unknown<Expr, D>>;
  static_assert(
      correct<mistake>,
      "sequence_mask: sequence_mask<extent>(lengths) needs integer lengths and an extent, a number for tensors");
  if constexpr (correct<mistake>) {
    const auto x = materialize(lengths);
    const auto mask =
        detail::counted_from_0<std::int64_t, dims_t<D>>(x, D::spec[0]) < cast<std::int64_t>(expand_dims<-1>(x));
    if constexpr (std::is_same_v<T, bool>)
      return materialize(mask);
    else
      return materialize(cast<T>(mask));
  } else {
    return detail::same_after_mistake(lengths);
  }
}

WEFT_OTHER_CALLS(sequence_mask);  // the extent is a template argument: sequence_mask<8>(lengths)

}  // namespace weft
