// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>
#include <tuple>

#include <weft/ops/box_copies.hpp>
#include <weft/ops/broadcast_to.hpp>
#include <weft/ops/concat.hpp>
#include <weft/ops/elementwise.hpp>
#include <weft/ops/expand_dims.hpp>
#include <weft/ops/range.hpp>
#include <weft/ops/reduce.hpp>

/// Stacking, repetition and unstacking of arrays, and the diagonals of matrices. Not part of <weft/weft.hpp>. For all
/// element types, unless a function says otherwise.
namespace weft {

/// Joins operands of equal extents along a new axis (tf.stack): `stack<0>(a, b)` of two `[n, 3]` is `[2, n, 3]`, and
/// `stack<-1>(a, b)` is `[n, 3, 2]`. Throws invalid_argument if run-time extents of one name differ.
template <int Axis, Expression First, Expression... Rest>
[[nodiscard]] auto stack(const First& first, const Rest&... rest);

/// Returns the slices along an axis of static extent, without the axis, as a tuple (tf.unstack): `auto [a, b] =
/// unstack<0>(x)` of `[2, n, 3]` yields two `[n, 3]`.
template <int Axis, Expression Expr>
[[nodiscard]] auto unstack(const Expr& e);

/// Repeats the operand along each axis (tf.tile, numpy.tile): `tile<2, 3>(x)` of `[n, 4]` is `[2 * n, 12]`. Takes one
/// count, 1 or more, for each axis; the operand has at most 7 axes.
template <int... Repeats, Expression Expr>
[[nodiscard]] auto tile(const Expr& e);

/// Returns square matrices `[..., n, n]` with the operand `[..., n]` on their diagonals and 0 elsewhere
/// (tf.linalg.diag).
template <Expression Expr>
[[nodiscard]] auto diag(const Expr& e);

/// Returns the diagonals `[..., n]` of square matrices `[..., n, n]` (tf.linalg.diag_part).
template <Expression Expr>
[[nodiscard]] auto diag_part(const Expr& e);

/// Returns the sum of each diagonal, `[...]` of `[..., n, n]` (tf.linalg.trace). Not for bool, half or bfloat16.
template <Expression Expr>
[[nodiscard]] auto matrix_trace(const Expr& e);

/// Keeps the main diagonal, `lower` diagonals below it and `upper` diagonals above it of matrices `[..., m, n]`, and
/// sets all other elements to 0 (tf.linalg.band_part). A negative number keeps that whole side: `band_part(x, -1, 0)`
/// is the lower triangle. Not for bool, half or bfloat16.
template <Expression Expr>
[[nodiscard]] auto band_part(const Expr& e, std::int64_t lower, std::int64_t upper);

/// Stacked operands must have equal extents.
template <class A, class B>
struct stacked_extents_differ : mistake<!(A::spec == B::spec)> {};

/// tile takes one count, 1 or more, for each axis, and needs room for one more axis.
template <class Dims, int... Repeats>
struct repeats_do_not_fit
    : mistake<sizeof...(Repeats) != Dims::rank || Dims::rank >= max_rank || !((Repeats > 0) && ...)> {};

/// The operation takes matrices, `[..., rows, columns]`.
template <class Dims>
struct operand_is_not_a_matrix : mistake<(Dims::rank < 2)> {};

/// A scalar has no diagonal, and the result has at most 8 axes.
template <class Dims>
struct diagonal_does_not_fit : mistake<Dims::rank == 0 || Dims::rank == max_rank> {};

WEFT_COLD_BEGIN

namespace detail {

/// The strides of the diagonals within their matrices.
inline device::operand diagonals_among(dtype type, const shape& matrices, const shape& diagonals) {
  const device::operand all = device::broadcast_operand(type, matrices, matrices);
  device::operand found = device::broadcast_operand(type, diagonals, diagonals);
  const std::size_t last = diagonals.rank - 1;
  for (std::size_t i = 0; i < last; ++i) found.stride[i] = all.stride[i];
  found.stride[last] = all.stride[last] + all.stride[last + 1];
  return found;
}

/// The numbers 0, 1, ... along an axis of x, as a node or a tensor.
template <class X, std::size_t Axis>
auto indices_along(const X& x) {
  using D = dims<extent_at<dims_t<X>, Axis>::value>;
  using T = std::int64_t;
  if constexpr (X::symbolic) {
    gpu::compile_kernels<range_op, T>();
    return node<T, D>(record_range<T>(*x.erased().builder(), {dtype_of<T>, D::spec}, 0, 1));
  } else {
    tensor<T, D> indices{shape(x.extents()[Axis])};
    for (std::int64_t i = 0; i < x.extents()[Axis]; ++i) indices.data()[i] = i;
    return indices;
  }
}

}  // namespace detail

/// Extracts the diagonals of matrices.
struct diag_part_op {
  static constexpr const char* name = "diag_part";
  static strided_copies copies(const prepare_context&);
  static void gradient(gradient_context&);
};

/// Puts diagonals into matrices of zeros.
struct diag_op {
  static constexpr const char* name = "diag";
  static strided_copies copies(const prepare_context&);
  static void gradient(gradient_context&);
};

inline strided_copies diag_part_op::copies(const prepare_context& p) {
  const shape &from = p.inputs[0].extents, &to = p.outputs[0].extents;
  if (from[from.rank - 1] != from[from.rank - 2])
    throw error(error_code::invalid_argument, name, {"needs square matrices, not those of ", to_string(from)});
  const dtype type = p.inputs[0].type;
  return {type, to, detail::diagonals_among(type, from, to), device::broadcast_operand(type, to, to)};
}

inline void diag_part_op::gradient(gradient_context& g) {
  g.set_gradient(0, record<diag_op>({g.upstream()}, g.input(0).info()));
}

inline strided_copies diag_op::copies(const prepare_context& p) {
  const shape &from = p.inputs[0].extents, &to = p.outputs[0].extents;
  const dtype type = p.inputs[0].type;
  strided_copies all(type, from, device::broadcast_operand(type, from, from), detail::diagonals_among(type, to, from));
  all.fills = true;
  return all;
}

inline void diag_op::gradient(gradient_context& g) {
  g.set_gradient(0, record<diag_part_op>({g.upstream()}, g.input(0).info()));
}

WEFT_COLD_END

template <int Axis, Expression First, Expression... Rest>
auto stack(const First& first, const Rest&... rest) {
  using D = dims_t<First>;
  using mistake = first_mistake<new_axis_out_of_range<D, Axis>, element_types_differ<value_t<First>, value_t<Rest>>...,
                                stacked_extents_differ<D, dims_t<Rest>>...>;
  static_assert(correct<mistake>, "stack: needs an axis of the result, and operands of one type and equal extents");
  if constexpr (correct<mistake>)
    return concat<Axis>(expand_dims<Axis>(first), expand_dims<Axis>(rest)...);
  else
    return detail::after_mistake<value_t<First>, D>(first, rest...);
}

template <int Axis, Expression Expr>
auto unstack(const Expr& e) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, extent_is_not_an_int<D, Axis>>;
  static_assert(correct<mistake>, "unstack: needs an axis whose extent is a number, not a name");
  if constexpr (correct<mistake>)
    return std::apply([](const auto&... part) { return std::tuple{squeeze<Axis>(part)...}; },
                      split<Axis, static_extent<Expr, Axis>()>(e));
  else
    return std::tuple{detail::same_after_mistake(e)};
}

namespace detail {

template <std::size_t Axis>
auto tile_axes(const Expression auto& x) {
  return x;
}
/// Repeats the operand along `Axis` and the following axes.
template <std::size_t Axis, int Repeats, int... More, class X>
auto tile_axes(const X& x) {
  if constexpr (Repeats == 1) {
    return tile_axes<Axis + 1, More...>(x);
  } else {
    using D = dims_t<X>;
    const auto one = expand_dims<static_cast<int>(Axis)>(x);
    using Many = with_extent<dims_t<decltype(one)>, Axis, extent<Repeats>>;
    using To = with_extent<D, Axis, extent_of<D, Axis>() * extent<Repeats>>;
    shape many = Many::spec, to = To::spec;
    if constexpr (X::symbolic)
      remember_extents<To>(*x.erased().builder());
    else
      many = resized(one.extents(), Axis, Repeats), to = resized(x.extents(), Axis, x.extents()[Axis] * Repeats);
    const auto repeated = call_operation<broadcast_to_op, value_t<X>, Many>(many, {}, one);
    return tile_axes<Axis + 1, More...>(under_extents<To>(repeated, to));
  }
}

}  // namespace detail

template <int... Repeats, Expression Expr>
auto tile(const Expr& e) {
  using mistake = repeats_do_not_fit<dims_t<Expr>, Repeats...>;
  static_assert(correct<mistake>,
                "tile: takes a number of copies, at least 1, for each axis: tile<2, 1>(x) for two axes");
  if constexpr (correct<mistake>) {
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, value_t<Expr>>();
    return detail::tile_axes<0, Repeats...>(materialize(e));
  } else {
    return detail::same_after_mistake(e);
  }
}

template <Expression Expr>
auto diag(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  static_assert(correct<diagonal_does_not_fit<D>>, "diag: takes vectors, [..., n]; the result is [..., n, n]");
  if constexpr (correct<diagonal_does_not_fit<D>>) {
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    const auto x = materialize(e);
    using Column = dims_t<decltype(expand_dims<-1>(x))>;
    using To = with_extent<Column, D::rank, extent_of<D, D::rank - 1>()>;
    shape extents = extents_of(x);
    extents.push_back(extents[D::rank - 1]);
    return call_operation<diag_op, T, To>(extents, {}, x);
  } else {
    return detail::same_after_mistake(e);
  }
}

template <Expression Expr>
auto diag_part(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  static_assert(correct<matrices_are_not_square<D>>, "diag_part: takes square matrices, [..., n, n]");
  if constexpr (correct<matrices_are_not_square<D>>) {
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    const auto x = materialize(e);
    using To = without_axes<D, std::uint32_t{1} << (D::rank - 1)>;
    shape extents;
    for (std::size_t i = 0; i + 1 < D::rank; ++i) extents.push_back(extents_of(x)[i]);
    return call_operation<diag_part_op, T, To>(extents, {}, x);
  } else {
    return detail::same_after_mistake(e);
  }
}

template <Expression Expr>
auto matrix_trace(const Expr& e) {
  using mistake = first_mistake<matrices_are_not_square<dims_t<Expr>>, reduction_undefined_for<value_t<Expr>>>;
  static_assert(correct<mistake>, "matrix_trace: takes square matrices of numbers, [..., n, n]: cast<float>(x)");
  if constexpr (correct<mistake>)
    return sum<-1>(diag_part(e));
  else
    return detail::same_after_mistake(e);
}

template <Expression Expr>
auto band_part(const Expr& e, std::int64_t lower, std::int64_t upper) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = first_mistake<operand_is_not_a_matrix<D>, reduction_undefined_for<T>>;
  static_assert(correct<mistake>, "band_part: takes matrices of numbers, [..., rows, columns]: cast<float>(x)");
  if constexpr (correct<mistake>) {
    constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
    const auto x = materialize(e);
    const auto row = expand_dims<1>(detail::indices_along<decltype(x), D::rank - 2>(x));
    const auto column = detail::indices_along<decltype(x), D::rank - 1>(x);
    return materialize(select(row - column <= (lower < 0 ? far : lower) && column - row <= (upper < 0 ? far : upper), x,
                              static_cast<T>(0)));
  } else {
    return detail::same_after_mistake(e);
  }
}

template <auto...>
auto stack(...) WEFT_DELETED;  // the axis is a template argument, the operands are arguments: stack<0>(x, y)
template <auto...>
auto unstack(...) WEFT_DELETED;  // the axis is a template argument: auto [a, b] = unstack<0>(x)
template <auto...>
auto tile(...) WEFT_DELETED;  // repeats are template arguments, one for each axis: tile<2, 1>(x)
template <auto...>
auto band_part(...) WEFT_DELETED;  // the diagonals to keep are arguments: band_part(x, 0, -1), the upper triangle

}  // namespace weft
