// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/diagonal.hpp>

/// Triangles of matrices. Not part of <weft/weft.hpp>. For all element types.
namespace weft {

namespace detail {

/// The columns of a row of a triangle: those from `begin` up to but not including `end`.
struct triangle_row {
  int begin, end;
  constexpr triangle_row(int row, int columns, int k, bool lower)
      : begin(lower ? 0 : clipped(row + k, columns)), end(lower ? clipped(row + k + 1, columns) : columns) {}
  static constexpr int clipped(int column, int columns) { return column < 0 ? 0 : column > columns ? columns : column; }
};

template <int Rows, int Columns, int K, bool Lower>
auto triangle_indices() {
  constexpr int count = [] {
    int n = 0;
    for (int i = 0; i < Rows; ++i)
      n += triangle_row(i, Columns, K, Lower).end - triangle_row(i, Columns, K, Lower).begin;
    return n;
  }();
  tensor<std::int64_t, dims<2, count>> made;
  std::int64_t* row = made.data();
  for (int i = 0; i < Rows; ++i) {
    const triangle_row columns(i, Columns, K, Lower);
    for (int j = columns.begin; j < columns.end; ++j) row[count] = j, *row++ = i;
  }
  return made;
}

}  // namespace detail

/// Keeps the lower triangle of matrices `[..., m, n]` and sets all other elements to 0 (numpy.tril, torch.tril). The
/// triangle ends with the main diagonal for k = 0, with the k-th diagonal above it or, if k is negative, below it.
template <Expression Expr>
[[nodiscard]] auto tril(const Expr& e, std::int64_t k = 0) {
  static_assert(correct<operand_is_not_a_matrix<dims_t<Expr>>>, "tril: takes matrices, [..., rows, columns]");
  if constexpr (correct<operand_is_not_a_matrix<dims_t<Expr>>>)
    return detail::band(materialize(e), -detail::all_diagonals, k);
  else
    return detail::same_after_mistake(e);
}
/// Keeps the upper triangle of matrices `[..., m, n]`, from diagonal k on, and sets all other elements to 0
/// (numpy.triu, torch.triu).
template <Expression Expr>
[[nodiscard]] auto triu(const Expr& e, std::int64_t k = 0) {
  static_assert(correct<operand_is_not_a_matrix<dims_t<Expr>>>, "triu: takes matrices, [..., rows, columns]");
  if constexpr (correct<operand_is_not_a_matrix<dims_t<Expr>>>)
    return detail::band(materialize(e), k, detail::all_diagonals);
  else
    return detail::same_after_mistake(e);
}

/// Returns the rows and columns of the elements of the lower triangle of a matrix `[Rows, Columns]`, row by row, as
/// `[2, count]` (torch.tril_indices; numpy.tril_indices returns a pair): `const auto [i, j] =
/// unstack<0>(tril_indices<4>())`.
template <int Rows, int Columns = Rows, int K = 0>
[[nodiscard]] auto tril_indices() {
  return detail::triangle_indices<Rows, Columns, K, true>();
}
/// The same for the upper triangle (torch.triu_indices).
template <int Rows, int Columns = Rows, int K = 0>
[[nodiscard]] auto triu_indices() {
  return detail::triangle_indices<Rows, Columns, K, false>();
}

WEFT_OTHER_CALLS(tril);  // the diagonal is an argument: tril(x, -1)
WEFT_OTHER_CALLS(triu);  // the diagonal is an argument: triu(x, 1)

}  // namespace weft
