// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/arrays/counted.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Diagonals and bands of matrices. Not part of <weft/weft.hpp>. The functions accept all element types except
/// where their comments name others.
namespace weft {

/// The operation takes matrices, `[..., rows, columns]`.
template <class Dims>
struct operand_is_not_a_matrix : mistake<(Dims::rank < 2)> {};

/// A scalar has no diagonal, and the result has at most 8 axes.
template <class Dims>
struct diagonal_does_not_fit : mistake<Dims::rank == 0 || Dims::rank == max_rank> {};

namespace detail {

template <class Dims, int Offset>
constexpr bool has_diagonal() {
  if constexpr (Dims::rank < 2) {
    return false;
  } else {
    constexpr std::int64_t rows = Dims::spec[Dims::rank - 2], columns = Dims::spec[Dims::rank - 1];
    return rows < 0 || columns < 0 ? rows == columns : Offset <= columns && -Offset <= rows;
  }
}
/// Dims with one axis of the diagonal's length in place of the last two. One of the terms is 0.
template <class Dims, int Offset>
constexpr auto without_columns() {
  constexpr std::size_t last = Dims::rank - 1;
  constexpr std::int64_t above = Offset < 0 ? -Offset : 0, beside = Offset > 0 ? Offset : 0;
  constexpr std::int64_t rows = Dims::spec[last - 1], columns = Dims::spec[last];
  using Rows = without_axes<Dims, std::uint32_t{1} << last>;
  if constexpr (rows < 0)
    return with_extent<Rows, last - 1, longer<-above - beside>(extent_of<Dims, last>())>{};
  else
    return with_extent<Rows, last - 1, (rows - above < columns - beside ? rows - above : columns - beside)>{};
}
template <class Dims, int Offset>
using diagonals_of = decltype(without_columns<Dims, Offset>());

template <class Dims, int Offset, class Values>
constexpr bool replaces_diagonals() {
  if constexpr (has_diagonal<Dims, Offset>())
    return diagonals_of<Dims, Offset>::spec == Values::spec;
  else
    return false;
}

}  // namespace detail

/// Matrices must have the diagonal, and the compiler must know its length: from two numbers or from equal extents.
template <class Dims, int Offset>
struct diagonal_does_not_exist : mistake<!detail::has_diagonal<Dims, Offset>()> {};

/// New diagonals must have the extents of the diagonals that they replace.
template <class Dims, int Offset, class Values>
struct diagonals_differ : mistake<!detail::replaces_diagonals<Dims, Offset, Values>()> {};

WEFT_COLD_BEGIN

namespace detail {

/// The diagonal in question is above the main diagonal if the offset is positive.
struct diagonal_attributes {
  attribute<std::int64_t> offset = 0;
};

/// Copies diagonals out of matrices or, if `back`, into matrices of zeros.
inline strided_copies copy_diagonals(const prepare_context& p, std::int64_t offset, bool back) {
  const shape &matrices = (back ? p.outputs : p.inputs)[0].extents,
              &diagonals = (back ? p.inputs : p.outputs)[0].extents;
  const std::size_t last = diagonals.rank - 1;
  const std::int64_t row = offset < 0 ? -offset : 0, column = offset > 0 ? offset : 0;  // where the diagonal begins
  const std::int64_t rows = matrices[last] - row, columns = matrices[last + 1] - column;
  if (diagonals[last] != (rows < columns ? rows : columns))
    throw error(error_code::invalid_argument, p.node.op->name,
                {"diagonal ", offset, " of ", to_string(matrices), " does not have ", diagonals[last], " elements"});
  const dtype type = p.inputs[0].type;
  const device::operand all = device::broadcast_operand(type, matrices, matrices);
  const device::operand packed = device::broadcast_operand(type, diagonals, diagonals);
  device::operand found = packed;
  for (std::size_t i = 0; i < last; ++i) found.stride[i] = all.stride[i];
  found.stride[last] = all.stride[last] + all.stride[last + 1];
  strided_copies copies(type, diagonals, back ? packed : found, back ? found : packed);
  strided_region& region = copies.regions[0];
  (back ? region.to_offset : region.from_offset) = row * all.stride[last] + column * all.stride[last + 1];
  copies.fills = back;
  return copies;
}

}  // namespace detail

/// Extracts the diagonals of matrices.
struct diag_part_op {
  static constexpr const char* name = "diag_part";
  static constexpr const char* onnx = "diagonal()";
  using attributes = detail::diagonal_attributes;
  static strided_copies copies(const prepare_context& p, const attributes& a) {
    return detail::copy_diagonals(p, a.offset, false);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Puts diagonals into matrices of zeros.
struct diag_op {
  static constexpr const char* name = "diag";
  static constexpr const char* onnx = "diagonal()";
  using attributes = detail::diagonal_attributes;
  static strided_copies copies(const prepare_context& p, const attributes& a) {
    return detail::copy_diagonals(p, a.offset, true);
  }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, record<diag_part_op>({g.upstream()}, g.input(0).info(), a));
  }
};

inline void diag_part_op::gradient(gradient_context& g, const attributes& a) {
  g.set_gradient(0, record<diag_op>({g.upstream()}, g.input(0).info(), a));
}

WEFT_COLD_END

namespace detail {

/// The number of the diagonal of each element, its column minus its row.
template <class X>
auto diagonal_numbers(const X& x) {
  constexpr std::size_t rank = dims_t<X>::rank;
  return counted_along<std::int64_t, rank - 1>(x) - expand_dims<1>(counted_along<std::int64_t, rank - 2>(x));
}

/// Returns a where the mask is true, and b elsewhere, for all element types. b may be a number.
template <class Mask, class A, class B>
auto chosen(const Mask& mask, const A& a, const B& b) {
  using T = value_t<A>;
  if constexpr (std::is_same_v<T, bool>)
    return materialize((mask && a) || (!mask && b));
  else if constexpr (is_storage_type<T> && Expression<B>)
    return materialize(cast<T>(weft::select(mask, cast<float>(a), cast<float>(b))));
  else if constexpr (is_storage_type<T>)
    return materialize(cast<T>(weft::select(mask, cast<float>(a), b)));
  else
    return materialize(weft::select(mask, a, b));
}

inline constexpr std::int64_t all_diagonals = std::numeric_limits<std::int64_t>::max();

/// Keeps the diagonals from `lowest` to `highest`, both included.
template <class X>
auto band(const X& x, std::int64_t lowest, std::int64_t highest) {
  const auto diagonal = diagonal_numbers(x);
  const auto in_band = diagonal >= lowest && diagonal <= highest;
  if constexpr (std::is_same_v<value_t<X>, bool>)
    return materialize(in_band && x);
  else
    return chosen(in_band, x, 0);
}

}  // namespace detail

/// Returns matrices with the operand on their diagonal `Offset` and 0 elsewhere (tf.linalg.diag, torch.diag_embed):
/// `diag(x)` of `[..., n]` is `[..., n, n]`. A positive offset counts from the main diagonal upwards: `diag<1>(x)` is
/// `[..., n + 1, n + 1]`.
template <int Offset = 0, Expression Expr>
[[nodiscard]] auto diag(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  static_assert(correct<diagonal_does_not_fit<D>>, "diag: takes vectors, [..., n]; the result is [..., n, n]");
  if constexpr (correct<diagonal_does_not_fit<D>>) {
    constexpr int more = Offset < 0 ? -Offset : Offset;
    constexpr auto side = detail::longer<more>(extent_of<D, D::rank - 1>());
    const auto x = materialize(e);
    using Column = dims_t<decltype(expand_dims<-1>(x))>;
    using To = with_extent<with_extent<Column, D::rank - 1, side>, D::rank, side>;
    shape extents = extents_of(x);
    extents[D::rank - 1] += more;
    extents.push_back(extents[D::rank - 1]);
    return call_operation<diag_op, T, To>(extents, {Offset}, x);
  } else {
    return detail::same_after_mistake(e);
  }
}
/// Returns diagonal `Offset` of matrices `[..., m, n]` (tf.linalg.diag_part, torch.diagonal): `diag_part(x)` of `[n,
/// n]` is
/// `[n]`, and `diag_part<-1>(x)`, below the main diagonal, is `[n - 1]`. The extents are numbers, or they are equal.
template <int Offset = 0, Expression Expr>
[[nodiscard]] auto diag_part(const Expr& e) {
  using mistake = diagonal_does_not_exist<dims_t<Expr>, Offset>;
  static_assert(
      correct<mistake>,
      "diag_part: diag_part<offset>(x) takes matrices that have this diagonal, with two extents that are numbers "
      "or equal");
  if constexpr (correct<mistake>) {
    const auto x = materialize(e);
    shape extents = extents_of(x);
    const std::uint32_t last = --extents.rank;
    if constexpr (!Expr::symbolic) {
      extents[last - 1] += Offset < 0 ? Offset : 0;
      const std::int64_t columns = extents[last] - (Offset > 0 ? Offset : 0);
      if (columns < extents[last - 1]) extents[last - 1] = columns;
    }
    return call_operation<diag_part_op, value_t<Expr>, detail::diagonals_of<dims_t<Expr>, Offset>>(extents, {Offset},
                                                                                                   x);
  } else {
    return detail::same_after_mistake(e);
  }
}

/// Returns matrices `[..., m, n]` with diagonal `Offset` replaced by `values`, `[..., length]` (tf.linalg.set_diag).
template <int Offset = 0, Expression Expr, Expression Values>
[[nodiscard]] auto set_diag(const Expr& e, const Values& values) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = first_mistake<element_types_differ<T, value_t<Values>>, diagonal_does_not_exist<D, Offset>,
                                diagonals_differ<D, Offset, dims_t<Values>>>;
  static_assert(
      correct<mistake>,
      "set_diag: set_diag<offset>(x, values) takes matrices and as many values as the diagonal has, of one type");
  if constexpr (correct<mistake>) {
    const auto x = materialize(e);
    const auto all = call_operation<diag_op, T, D>(extents_of(x), {Offset}, materialize(values));
    return detail::chosen(materialize(detail::diagonal_numbers(x) == std::int64_t{Offset}), all, x);
  } else {
    return detail::same_after_mistake(e);
  }
}

/// Returns the sum of each diagonal, `[...]` of `[..., n, n]` (tf.linalg.trace). Not for bool, half or bfloat16.
template <Expression Expr>
[[nodiscard]] auto matrix_trace(const Expr& e) {
  using mistake = first_mistake<matrices_are_not_square<dims_t<Expr>>, reduction_undefined_for<value_t<Expr>>>;
  static_assert(correct<mistake>, "matrix_trace: takes square matrices of numbers, [..., n, n]: cast<float>(x)");
  if constexpr (correct<mistake>)
    return sum<-1>(diag_part(e));
  else
    return detail::same_after_mistake(e);
}

/// Keeps the main diagonal, `lower` diagonals below it and `upper` diagonals above it of matrices `[..., m, n]`, and
/// sets all other elements to 0 (tf.linalg.band_part). A negative number keeps that whole side: `band_part(x, -1, 0)`
/// is the lower triangle.
template <Expression Expr>
[[nodiscard]] auto band_part(const Expr& e, std::int64_t lower, std::int64_t upper) {
  static_assert(correct<operand_is_not_a_matrix<dims_t<Expr>>>, "band_part: takes matrices, [..., rows, columns]");
  if constexpr (correct<operand_is_not_a_matrix<dims_t<Expr>>>)
    return detail::band(materialize(e), lower < 0 ? -detail::all_diagonals : -lower,
                        upper < 0 ? detail::all_diagonals : upper);
  else
    return detail::same_after_mistake(e);
}

WEFT_OTHER_CALLS(band_part);  // the diagonals to keep are arguments: band_part(x, 0, -1), the upper triangle

}  // namespace weft
