// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/elementwise/functions.hpp>

/// One-hot vectors along any axis. Not part of <weft/weft.hpp>; `one_hot<Depth>(labels)` is.
namespace weft {

/// Returns vectors along a new axis that are `on` at the label and `off` elsewhere (tf.one_hot with axis, on_value and
/// off_value): for labels `[n]`, `one_hot_along<0, 10>(labels)` is `[10, n]`. Axis -1 is the last one. The element type
/// is float or that of `on`: `one_hot_along<-1, 10>(labels, true, false)`. A label out of range yields only `off`.
template <int Axis, int Depth, Expression Expr, class T = float>
[[nodiscard]] auto one_hot_along(const Expr& labels, T on = T(1), T off = T(0)) {
  using D = dims_t<Expr>;
  using U = value_t<Expr>;
  using mistake = first_mistake<
      new_axis_out_of_range<D, Axis>,
      element_types_differ<std::conditional_t<std::is_same_v<U, std::int64_t>, std::int32_t, U>, std::int32_t>>;
  static_assert(correct<mistake> && Depth > 0,
                "one_hot_along<axis, depth>(labels): needs an axis of the result, labels of std::int32_t or "
                "std::int64_t, and a positive depth");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(labels);
  } else {
    constexpr std::size_t axis =
        Axis < 0 ? D::rank + 1 - static_cast<std::size_t>(-Axis) : static_cast<std::size_t>(Axis);
    tensor<U, detail::select<dims<Depth>, D::rank - axis + 1, detail::pick_kept<0>>> classes;
    for (int i = 0; i < Depth; ++i) classes.data()[i] = static_cast<U>(i);
    return materialize(select(expand_dims<Axis>(labels) == classes, tensor<T>(on), off));
  }
}

}  // namespace weft
