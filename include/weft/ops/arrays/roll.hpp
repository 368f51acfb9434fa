// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/elementwise/functions.hpp>

/// Rotations along axes. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

/// The attributes are the places for each axis.
struct roll_op {
  static constexpr const char* name = "roll";
  static constexpr const char* onnx = "roll()";
  struct attributes {
    attribute<std::int64_t> by[max_rank];
  };

  /// Each rotated axis divides the array in two: the elements that stay in order, and those that enter at the front.
  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const shape& whole = p.inputs[0].extents;
    box_copies all(p);
    for (std::uint32_t entering = 0; entering < (1u << whole.rank); ++entering) {
      shape box = whole;
      box_walk from, to;
      for (std::size_t i = 0; i < whole.rank; ++i) {
        const std::int64_t n = whole[i], by = n > 0 ? (a.by[i] % n + n) % n : 0;
        if ((entering >> i) & 1)
          box[i] = by, from.begin[i] = n - by;
        else
          box[i] = n - by, to.begin[i] = by;
      }
      if (box.elements() > 0) all.copy(box, 0, from, 0, to);
    }
    return all;
  }
  static void gradient(gradient_context& g, attributes a) {
    for (attribute<std::int64_t>& by : a.by) by = -by;
    g.set_gradient(0, record<roll_op>({g.upstream()}, g.input(0).info(), a));
  }
};

WEFT_COLD_END

/// Moves each element forward by a number of places along the given axes; elements that leave an axis at one end enter
/// at the other (tf.roll, numpy.roll, torch.roll): `roll<0>(x, 1)` puts the last row first, and `roll<0, 1>(x, 2, -1)`
/// also moves the columns back by one. Numbers may be negative or exceed the extent. All element types.
template <int... Axes, Expression Expr, class... Shift>
  requires(sizeof...(Axes) == sizeof...(Shift) && sizeof...(Axes) > 0 && (std::is_integral_v<Shift> && ...))
[[nodiscard]] auto roll(const Expr& e, Shift... by) {
  using D = dims_t<Expr>;
  using mistake = axis_out_of_range<D, Axes...>;
  static_assert(correct<mistake>,
                "roll: needs distinct axes of x, and a number of places for each: roll<0, 1>(x, 2, -1)");
  if constexpr (!correct<mistake>) {
    return detail::same_after_mistake(e);
  } else {
    const auto x = materialize(e);
    roll_op::attributes a;
    ((a.by[axis_number<D, Axes>] = static_cast<std::int64_t>(by)), ...);
    return call_operation<roll_op, value_t<Expr>, D>(extents_of(x), a, x);
  }
}

/// Rotates an axis by a computed number of places, a scalar of std::int32_t or std::int64_t.
template <int Axis, Expression Expr, Expression Shift>
[[nodiscard]] auto roll(const Expr& e, const Shift& by) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, slice_does_not_begin_at_an_index<Shift>>;
  static_assert(correct<mistake>, "roll: roll<axis>(x, by) needs an axis of x, and an integer scalar by");
  if constexpr (!correct<mistake>) {
    return detail::same_after_mistake(e);
  } else {
    constexpr auto extent = detail::extent_at<D, axis_number<D, Axis>>::value;
    const auto x = materialize(e);
    const auto n = maximum(detail::extent_value<extent>(x), std::int64_t{1});
    const auto places = materialize(cast<std::int64_t>(by));
    const auto rest = materialize(places - places / n * n);  // has the sign of `places`
    return slice<Axis, extent>(concat<Axis>(x, x), materialize(select(rest > 0, n - rest, -rest)));
  }
}

WEFT_OTHER_CALLS(roll);  // axes are template arguments: roll<0>(x, 1), roll<0, 1>(x, 2, -1)

}  // namespace weft
