// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/box_copies.hpp>

/// Reversal of axes. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

/// Reversal is its own inverse, and its own gradient.
struct reverse_op {
  static constexpr const char* name = "reverse";
  static constexpr const char* onnx = "reverse()";
  struct attributes {
    attribute<std::int64_t> axes;  ///< one bit for each axis
  };

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const shape& extents = p.inputs[0].extents;
    box_walk from;
    for (std::size_t i = 0; i < extents.rank; ++i)
      if (axis_set::of_bits(a.axes).has(i)) from.begin[i] = extents[i] - 1, from.step[i] = -1;
    box_copies all(p);
    all.copy(extents, 0, from, 0, {});
    return all;
  }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, record<reverse_op>({g.upstream()}, g.input(0).info(), a));
  }
};

WEFT_COLD_END

/// Reverses the order of the elements along the given axes, or along all axes (tf.reverse, numpy.flip): the first row
/// of `reverse<0>(x)` is the last row of x.
template <int... Axes, Expression Expr>
[[nodiscard]] auto reverse(const Expr& e) {
  using D = dims_t<Expr>;
  using mistake = axis_out_of_range<D, Axes...>;
  static_assert(correct<mistake>, "reverse: needs distinct axes of x");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<value_t<Expr>, D>(e);
  } else {
    constexpr std::uint32_t axes =
        sizeof...(Axes) > 0 ? detail::axis_mask<Axes...>(D::rank) : (std::uint32_t{1} << D::rank) - 1;
    const auto x = materialize(e);
    return call_operation<reverse_op, value_t<Expr>, D>(extents_of(x), {axes}, x);
  }
}

}  // namespace weft
