// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/aliases.hpp>
#include <weft/ops/arrays/diagonal.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/products/matmul.hpp>

/// What the operations of this folder share: extents of results, and functions of symbols for gradients.
namespace weft::detail {

/// True if the types show that matrices have fewer rows than columns. Otherwise they must have at least as many when
/// the operation runs.
template <class D>
inline constexpr bool is_wide = is_less(extent_of<D, D::rank - 2>(), extent_of<D, D::rank - 1>());

/// The extents of vectors with one element for each row.
template <class D>
using column_vectors = without_axes<D, std::uint32_t{1} << (D::rank - 1)>;

inline shape without_axis(const shape& extents, std::size_t axis) {
  shape rest;
  for (std::size_t i = 0; i < extents.rank; ++i)
    if (i != axis) rest.push_back(extents[i]);
  return rest;
}

/// Requests the GPU kernels of the gradients below.
template <class T, Expression... Expr>
void compile_matrix_gradients() {
  if constexpr ((Expr::symbolic || ...)) {
    gpu::compile_kernels<matmul_op, T>();
    gpu::compile_kernels<gpu::moves, T>();
    gpu::compile_kernels<range_op, T>();
  }
}

/// The primitives of the gradients of factorizations.
inline constexpr primitive_set matrix_primitives{primitive::divide, primitive::less_equal, primitive::equal,
                                                 primitive::select};

WEFT_COLD_BEGIN

/// Exchanges rows and columns.
inline symbol adjoint(symbol x) {
  sequence<std::int64_t> axes;
  for (std::size_t i = 0; i < x.extents().rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  const std::size_t last = axes.size() - 1;
  axes[last] = axes[last - 1]++;
  return transpose(x, axes);
}

/// Vectors as matrices of one row, or of one column.
inline symbol as_rows(symbol x) { return expand_dims(x, {x.extents().rank - 1}); }
inline symbol as_columns(symbol x) { return expand_dims(x, {x.extents().rank}); }

/// The number of the diagonal of each element, its column minus its row.
template <class T>
symbol diagonal_numbers(symbol x) {
  const auto numbers = [&](std::size_t from_last) {
    const shape extent(x.extents()[x.extents().rank - from_last]);
    return record_range<T>(*x.builder(), {dtype_of<T>, extent}, T(0), T(1));
  };
  return as_rows(numbers(1)) - as_columns(numbers(2));
}
/// Keeps a diagonal and all below it, or all above it.
template <class T>
symbol lower_part(symbol x, int diagonal = 0) {
  return math::select(diagonal_numbers<T>(x) <= diagonal, x, 0);
}
template <class T>
symbol upper_part(symbol x, int diagonal = 0) {
  return math::select(diagonal_numbers<T>(x) <= diagonal - 1, 0, x);  // `less` is not in matrix_primitives
}
/// Replaces the main diagonal.
template <class T>
symbol with_diagonal(symbol x, symbol diagonal) {
  return math::select(diagonal_numbers<T>(x) == 0, diagonal, x);
}

WEFT_COLD_END

}  // namespace weft::detail
