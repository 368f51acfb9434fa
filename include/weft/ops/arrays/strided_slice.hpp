// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/images/window.hpp>

/// Slices of several axes at once, with bounds that may count from the end. Not part of <weft/weft.hpp>.
namespace weft {

/// The elements `begin`, `begin + step`, ... of an axis, in front of `end` (NumPy's `begin:end:step`). Negative bounds
/// count from the end of the axis. An omitted bound is the end of the axis at which the step starts or stops.
struct bounds {
  static constexpr int omitted = std::numeric_limits<int>::min();
  int begin = omitted, end = omitted, step = 1;
};

namespace detail {

/// A position along an axis: counted from its end if `from_end`.
struct axis_position {
  int at;
  bool from_end;
  constexpr std::int64_t in(std::int64_t extent) const { return at + (from_end ? extent : 0); }
};
constexpr axis_position position_of(int bound, axis_position otherwise) {
  return bound == bounds::omitted ? otherwise : axis_position{bound, bound < 0};
}

/// What a `bounds` or an index selects.
struct axis_part {
  axis_position begin, end;
  int step;
  bool drops = false;

  constexpr axis_part(bounds b)
      : begin(position_of(b.begin, b.step > 0 ? axis_position{0, false} : axis_position{-1, true})),
        end(position_of(b.end, b.step > 0 ? axis_position{0, true} : axis_position{-1, false})),
        step(b.step) {}
  constexpr axis_part(int index) : begin{index, index < 0}, end{index + 1, index < 0}, step(1), drops(true) {}

  constexpr int distance() const { return step > 0 ? step : -step; }
  constexpr axis_position low() const { return step > 0 ? begin : end; }
  constexpr axis_position high() const { return step > 0 ? end : begin; }
  constexpr std::int64_t clipped(axis_position p, std::int64_t extent) const {
    const std::int64_t first = step > 0 ? 0 : -1, last = extent + first, at = p.in(extent);
    return at < first ? first : at > last ? last : at;
  }
  /// The first element's index, counted from the end if it is negative.
  constexpr std::int64_t first(std::int64_t extent) const { return extent < 0 ? begin.at : clipped(begin, extent); }
  /// The number of elements. If the bounds are not clipped, it is negative if they cross.
  constexpr std::int64_t count(std::int64_t extent, bool clips) const {
    const std::int64_t way =
        clips ? clipped(high(), extent) - clipped(low(), extent) : high().in(extent)-low().in(extent);
    return way > 0 ? (way + distance() - 1) / distance() : clips || low().from_end == high().from_end ? 0 : way;
  }
  constexpr bool fits(std::int64_t extent) const {
    return step != 0 && (!drops || extent < 0 || (begin.at < extent && begin.at >= -extent));
  }
};

template <auto... Parts>
struct axis_parts {
  static constexpr axis_part all[sizeof...(Parts) + 1] = {Parts..., bounds{}};
  static constexpr const axis_part& of(std::size_t axis) {
    return all[axis < sizeof...(Parts) ? axis : sizeof...(Parts)];
  }
  static constexpr bool fit(const shape& extents) {
    for (std::size_t i = 0; i < extents.rank; ++i)
      if (!of(i).fits(extents[i])) return false;
    return sizeof...(Parts) <= extents.rank;
  }
  static constexpr std::uint32_t dropped(std::size_t rank) {
    std::uint32_t mask = 0;
    for (std::size_t i = 0; i < rank; ++i) mask |= static_cast<std::uint32_t>(of(i).drops) << i;
    return mask;
  }
  /// The extent of the part that is taken from an axis.
  template <class Dims, std::size_t Axis>
  static constexpr auto extent() {
    constexpr axis_part part = of(Axis);
    constexpr auto whole = extent_at<Dims, Axis>::value;
    constexpr int by = part.distance();
    constexpr std::int64_t way = part.high().at - part.low().at;
    if constexpr (!is_dynamic(whole))
      return canonical<part.count(code(whole), true)>();
    else if constexpr (part.low().from_end == part.high().from_end)
      return static_cast<int>(part.count(0, false));
    else if constexpr (part.high().from_end)
      return window_extent<whole, 1, by, 1, false, way>();  // ceil((n + way) / by)
    else if constexpr (by == 1)
      return weft::extent<way> - whole;
    else
      return ceil_quotient(weft::extent<way> - whole, weft::extent<by>);
  }
  template <class Dims, class Indices>
  struct sliced;
  template <class Dims, std::size_t... Axis>
  struct sliced<Dims, indices<Axis...>> {
    using type = dims<extent<Dims, Axis>()...>;
  };
};

}  // namespace detail

/// strided_slice takes at most one `bounds` or index for each axis. A step must not be 0, and an index must exist.
template <class Dims, auto... Parts>
struct slices_do_not_fit : mistake<!detail::axis_parts<Parts...>::fit(Dims::spec)> {};

/// A slice with a step, from a computed index on, must have elements.
template <int Size>
struct slice_is_empty : mistake<(Size < 1)> {};

WEFT_COLD_BEGIN

/// A box in an array: where it begins along each axis, and its steps. A negative begin counts from the end of the axis.
struct box_attributes {
  attribute<std::int64_t> begin[max_rank], step[max_rank];

  box_attributes() {
    for (attribute<std::int64_t>& s : step) s = 1;
  }
  box_attributes(std::size_t axis, std::int64_t from, std::int64_t by) : box_attributes() {
    begin[axis] = from, step[axis] = by;
  }
  /// Throws out_of_range if the box exceeds the array.
  box_walk in(const char* operation, const shape& whole, const shape& box) const;
};

/// Takes the box.
struct strided_slice_op {
  static constexpr const char* name = "strided_slice";
  static constexpr const char* onnx = "strided_slice()";
  using attributes = box_attributes;

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const shape& box = p.outputs[0].extents;
    box_copies all(p);
    all.copy(box, 0, a.in(name, p.inputs[0].extents, box), 0, {});
    return all;
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Places the operand among zeros.
struct strided_pad_op {
  static constexpr const char* name = "strided_pad";
  using attributes = box_attributes;

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const shape& box = p.inputs[0].extents;
    box_copies all(p);
    all.fill_rest(0);
    all.copy(box, 0, {}, 0, a.in(name, p.outputs[0].extents, box));
    return all;
  }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, record<strided_slice_op>({g.upstream()}, g.input(0).info(), a));
  }
};

inline box_walk box_attributes::in(const char* operation, const shape& whole, const shape& box) const {
  box_walk walk;
  for (std::size_t i = 0; i < box.rank; ++i) {
    walk.begin[i] = begin[i] + (begin[i] < 0 ? whole[i] : 0), walk.step[i] = step[i];
    if (box[i] != 0 && !detail::has_elements(whole[i], walk.begin[i], box[i], walk.step[i]))
      throw error(error_code::out_of_range, operation,
                  {box[i], " elements from index ", walk.begin[i], " by steps of ", walk.step[i],
                   " are out of range for axis ", i, " of ", to_string(whole)});
  }
  return walk;
}
inline void strided_slice_op::gradient(gradient_context& g, const attributes& a) {
  g.set_gradient(0, record<strided_pad_op>({g.upstream()}, g.input(0).info(), a));
}

WEFT_COLD_END

/// Returns part of x, for each axis from the first on a `bounds` or an index, which removes the axis
/// (tf.strided_slice): for `[n, 8, 3]`, `strided_slice<bounds{1, -1}, bounds{.step = -2}, 0>(x)` is `x[1:-1, ::-2, 0]`
/// of NumPy, `[n - 2, 4]`. Other axes are kept whole. In an axis whose extent is a number, bounds beyond it are
/// clipped, as in NumPy. In others they are not: a step throws invalid_argument if the result has a negative extent,
/// and out_of_range if an element does not exist. All element types.
template <auto... Parts, Expression Expr>
  requires((std::is_integral_v<decltype(Parts)> || std::is_same_v<std::remove_cvref_t<decltype(Parts)>, bounds>) && ...)
[[nodiscard]] auto strided_slice(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = slices_do_not_fit<D, Parts...>;
  static_assert(correct<mistake>,
                "strided_slice: takes bounds{begin, end, step} or an index for each axis from the first on: "
                "strided_slice<bounds{1, -1}, 0>(x)");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e);
  } else {
    using parts = detail::axis_parts<Parts...>;
    using Box = typename parts::template sliced<D, typename detail::make_indices<D::rank>::type>::type;
    const auto x = materialize(e);
    box_attributes a;
    shape extents = Box::spec;
    for (std::size_t i = 0; i < D::rank; ++i) {
      a.begin[i] = parts::of(i).first(D::spec[i]), a.step[i] = parts::of(i).step;
      if constexpr (!Expr::symbolic)
        if (D::spec[i] < 0) extents[i] = parts::of(i).count(x.extents()[i], false);
    }
    const auto box = call_operation<strided_slice_op, T, Box>(extents, a, x);
    constexpr std::uint32_t dropped = parts::dropped(D::rank);
    if constexpr (dropped == 0)
      return box;
    else
      return detail::without<dropped>(box);
  }
}

/// Returns `Size` elements of an axis at a distance of `Step`, from a computed index on: `slice<0, 3, -2>(x, i)` takes
/// the elements i, i - 2 and i - 4. For the index and for errors, see `slice<axis, size>(x, i)`.
template <int Axis, int Size, int Step, Expression Expr, class Index>
[[nodiscard]] auto slice(const Expr& e, const Index& begin) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, step_is_zero<Step>, slice_is_empty<Size>>;
  static_assert(
      correct<mistake>,
      "slice: slice<axis, size, step>(x, begin) needs an axis of x, a size of at least 1 and a step other than 0");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<value_t<Expr>, D>(e);
  } else {
    constexpr int way = (Size - 1) * (Step < 0 ? -Step : Step);
    if constexpr (Step > 0)
      return slice<Axis, 0, Size, Step>(slice<Axis, way + 1>(e, begin));
    else
      return slice<Axis, way, Size, Step>(slice<Axis, way + 1>(e, begin - way));
  }
}

WEFT_OTHER_CALLS(strided_slice);  // bounds are template arguments: strided_slice<bounds{1, -1}, 0>(x), x[1:-1, 0]

}  // namespace weft
