// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/arrays/range.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Diagonals and bands of matrices. Not part of <weft/weft.hpp>. For all element types, unless a function says
/// otherwise.
namespace weft {

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
auto band_part(...) WEFT_DELETED;  // the diagonals to keep are arguments: band_part(x, 0, -1), the upper triangle

}  // namespace weft
