// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/strided_slice.hpp>
#include <weft/tensor/fill.hpp>

/// Padding with numbers, mirrored or repeated elements. Not part of <weft/weft.hpp>; for zeros, see slice.hpp.
namespace weft {

/// The elements of a padded border; the comments pad `a b c` by two elements.
enum class pad_mode : unsigned char {
  reflect,    ///< c b | a b c | b a: mirrors without the outermost element (TensorFlow and PyTorch: reflect)
  symmetric,  ///< b a | a b c | c b: mirrors with the outermost element (TensorFlow, NumPy: symmetric)
  edge,       ///< a a | a b c | c c (NumPy: edge; PyTorch: replicate)
  wrap,       ///< b c | a b c | a b (NumPy: wrap; PyTorch: circular)
};

namespace detail {

constexpr bool border_fits(std::int64_t extent, pad_mode mode, std::int64_t before, std::int64_t after) {
  const std::int64_t longer = before > after ? before : after;
  if (longer <= 0 || extent < 0) return true;
  return extent >= (mode == pad_mode::edge ? 1 : longer + (mode == pad_mode::reflect));
}

/// The index of the element of x that begins a border, negative if counted from the end of the axis, and the step from
/// it.
struct border_source {
  std::int64_t begin, step;
};
constexpr border_source source_of_border(pad_mode mode, std::int64_t before, bool at_end) {
  switch (mode) {
    case pad_mode::reflect:
      return {at_end ? -2 : before, -1};
    case pad_mode::symmetric:
      return {at_end ? -1 : before - 1, -1};
    case pad_mode::edge:
      return {at_end ? -1 : 0, 0};
    default:
      return {at_end ? 0 : -before, 1};
  }
}

}  // namespace detail

/// A border cannot have more elements than the axis offers; see pad_mode.
template <class Dims, int Axis, pad_mode Mode, int Before, int After>
struct border_exceeds_axis : mistake<!detail::border_fits(Dims::spec[axis_number<Dims, Axis>], Mode, Before, After)> {};

WEFT_COLD_BEGIN

/// Pads an axis by its own elements.
struct pad_border_op {
  static constexpr const char* name = "pad";
  static constexpr const char* onnx = "pad_border()";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<pad_mode> mode;
    attribute<std::int64_t> before, after;
  };

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const shape& from = p.inputs[0].extents;
    const std::int64_t n = from[a.axis];
    if (!detail::border_fits(n, a.mode, a.before, a.after))
      throw error(error_code::out_of_range, name,
                  {"a border of ", a.before > a.after ? std::int64_t{a.before} : std::int64_t{a.after},
                   " elements needs a longer axis than axis ", std::size_t{a.axis}, " of ", to_string(from)});
    box_copies all(p);
    all.copy(from, 0, {}, 0, {a.axis, a.before});
    for (const bool at_end : {false, true}) {
      const auto [begin, step] = detail::source_of_border(a.mode, a.before, at_end);
      all.copy(resized(from, a.axis, at_end ? a.after : a.before), 0, {a.axis, begin < 0 ? n + begin : begin, step}, 0,
               {a.axis, at_end ? a.before + n : 0});
    }
    return all;
  }
  static void gradient(gradient_context& g, const attributes& a) {
    const symbol up = g.upstream();
    const value_info& x = g.input(0).info();
    symbol sum_of_copies = record<slice_op>({up}, x, {a.axis, a.before});
    for (const bool at_end : {false, true}) {
      const std::int64_t size = at_end ? a.after : a.before;
      if (size == 0) continue;
      symbol border =
          record<strided_slice_op>({up}, {x.type, resized(x.extents, a.axis, size)}, {a.axis, at_end ? -size : 0, 1});
      auto [begin, step] = detail::source_of_border(a.mode, a.before, at_end);
      if (a.mode == pad_mode::edge)
        border = sum(border, axis_set::of_bits(std::int64_t{1} << std::size_t{a.axis}), true), step = 1;
      sum_of_copies = sum_of_copies + record<strided_pad_op>({border}, x, {a.axis, begin, step});
    }
    g.set_gradient(0, sum_of_copies);
  }
};

WEFT_COLD_END

/// Pads an axis by elements of x on both ends (tf.pad, numpy.pad, torch.nn.functional.pad): `pad<1, 2, 0,
/// pad_mode::reflect>(x)` of `[n, 8]` is `[n, 10]`. To pad several axes, call it for each. All element types. A border
/// must be shorter than the axis for `reflect`, not longer for `symmetric` and `wrap`, and the axis not empty for
/// `edge`; throws out_of_range if a run-time extent does not fit. In a gradient, each element sums the gradients of its
/// copies.
template <int Axis, int Before, int After, pad_mode Mode, Expression Expr>
[[nodiscard]] auto pad(const Expr& e) {
  using D = dims_t<Expr>;
  constexpr int axis = axis_out_of_range<D, Axis>::value ? 0 : Axis;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, padding_is_negative<Before, After>,
                                border_exceeds_axis<D, axis, Mode, Before, After>>;
  static_assert(correct<mistake>,
                "pad: pad<axis, before, after, mode>(x) needs an axis of x that is long enough for the mode");
  if constexpr (correct<mistake>)
    return detail::padded<pad_border_op, axis_number<D, Axis>, Before, After>(
        materialize(e), {axis_number<D, Axis>, Mode, Before, After});
  else
    return detail::same_after_mistake(e);
}

/// Pads an axis with a number on both ends (tf.pad with constant_values).
template <int Axis, int Before, int After, Expression Expr, class Num>
  requires(!Expression<Num>)
[[nodiscard]] auto pad(const Expr& e, Num value) {
  using D = dims_t<Expr>;
  using mistake =
      first_mistake<axis_out_of_range<D, Axis>, padding_is_negative<Before, After>, filled_with_no_number<D, Num>>;
  static_assert(correct<mistake>,
                "pad: pad<axis, before, after>(x, number) needs an axis of x, and counts of at least 0");
  if constexpr (correct<mistake>)
    return detail::padded<pad_op, axis_number<D, Axis>, Before, After>(
        materialize(e), {axis_number<D, Axis>, Before, 1,
                         static_cast<std::int64_t>(detail::literal_bits(static_cast<value_t<Expr>>(value)))});
  else
    return detail::same_after_mistake(e);
}

}  // namespace weft
