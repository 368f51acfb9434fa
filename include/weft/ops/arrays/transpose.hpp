// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/ops/arrays/box_copies.hpp>

namespace weft {

/// transpose takes each axis of its operand exactly once.
template <class Dims, int... Axes>
struct axes_not_a_permutation
    : mistake<sizeof...(Axes) != Dims::rank || detail::axis_mask<Axes...>(Dims::rank) == detail::invalid_axes> {};

namespace detail {

/// Returns true if the elements keep their order: only axes of extent 1 move.
constexpr bool moves_only_ones(const shape& extents, const auto& axis) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < extents.rank; ++i) {
    if (extents[axis(i)] == 1) continue;
    if (axis(i) < last) return false;
    last = axis(i);
  }
  return true;
}

}  // namespace detail

WEFT_COLD_BEGIN

/// The attributes are the operand's axes in their new order.
struct transpose_op {
  static constexpr const char* name = "transpose";
  static constexpr const char* onnx = "transpose()";

  static strided_copies copies(const prepare_context& p) {
    return detail::permuted(p.inputs[0].type, p.inputs[0].extents, p.outputs[0].extents, p.node.attributes.data());
  }
  static void gradient(gradient_context&);
};

#if WEFT_DEFINITIONS

WEFT_DECL symbol transpose(symbol x, const sequence<std::int64_t>& axes) {
  const shape& from = x.extents();
  shape extents;
  std::uint64_t named = 0;
  for (const std::int64_t axis : axes) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(from.rank) || ((named >> axis) & 1) || axes.size() != from.rank)
      throw error(error_code::invalid_argument, "transpose",
                  {"needs each axis of ", to_string(from), " once, counted from 0"});
    named |= std::uint64_t{1} << axis;
    extents.push_back(from[static_cast<std::size_t>(axis)]);
  }
  if (detail::moves_only_ones(from, [&](std::size_t i) { return static_cast<std::size_t>(axes[i]); }))
    return reshape(x, extents);
  return detail::record_call(operation_of<transpose_op>, {x}, {x.type(), extents}, axes);
}

WEFT_DECL void transpose_op::gradient(gradient_context& g) {
  sequence<std::int64_t> inverse(g.node.attributes.size());
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<std::size_t>(g.node.attributes[i])] = static_cast<std::int64_t>(i);
  g.set_gradient(0, transpose(g.upstream(), inverse));
}

#endif

WEFT_COLD_END

namespace detail {

template <int... Axes>
struct pick_listed {
  static constexpr std::size_t axis(std::size_t i) {
    constexpr int axes[] = {Axes..., 0};
    return static_cast<std::size_t>(axes[i] < 0 ? axes[i] + static_cast<int>(sizeof...(Axes)) : axes[i]);
  }
};
template <std::size_t Rank>
struct pick_reversed {
  static constexpr std::size_t axis(std::size_t i) { return Rank - 1 - i; }
};
/// The axes in order, but for two that are exchanged.
template <std::size_t A, std::size_t B>
struct exchanged {
  static constexpr std::size_t axis(std::size_t i) { return i == A ? B : i == B ? A : i; }
};
/// The axes in order, but for one that is moved to another position.
template <std::size_t From, std::size_t To>
struct moved {
  static constexpr std::size_t axis(std::size_t i) {
    const std::size_t other = i - (i > To);  // among the axes that stay
    return i == To ? From : other + (other >= From);
  }
};

/// Permutes the axes: axis i of the result is `Pick::axis(i)`.
template <class Pick, class Expr>
auto transpose_by(const Expr& e) {
  constexpr std::size_t rank = dims_t<Expr>::rank;
  if constexpr (moves_only_ones(dims_t<Expr>::spec, &Pick::axis)) {
    return under_axes<Pick, rank>(e);
  } else {
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, value_t<Expr>>();
    const auto x = materialize(e);
    sequence<std::int64_t> axes;
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(Pick::axis(i)));
    return record_or_run<value_t<Expr>, select<dims_t<Expr>, rank, Pick>, device_t<Expr>>(
        operation_of<transpose_op>, selected<Pick>(rank, extents_of(x)), axes, x);
  }
}

}  // namespace detail

/// Permutes the axes, `transpose<1, 0>(x)`, or reverses their order if none are given (tf.transpose). No elements are
/// copied if only axes of the static extent 1 move.
template <int... Axes, Expression Expr>
[[nodiscard]] auto transpose(const Expr& e) {
  using D = dims_t<Expr>;
  if constexpr (sizeof...(Axes) > 0)
    static_assert(correct<axes_not_a_permutation<D, Axes...>>, "transpose: name each axis once");
  if constexpr (sizeof...(Axes) > 0 && axes_not_a_permutation<D, Axes...>::value) {
    return detail::after_mistake<value_t<Expr>, D>(e);
  } else {
    using pick = std::conditional_t<sizeof...(Axes) == 0, detail::pick_reversed<D::rank>, detail::pick_listed<Axes...>>;
    return detail::transpose_by<pick>(e);
  }
}

}  // namespace weft
