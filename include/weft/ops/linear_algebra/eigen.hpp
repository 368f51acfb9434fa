// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/cpu/factorizations.hpp>
#include <weft/ops/linear_algebra/matrices.hpp>

/// Eigenvalues of matrices `[..., n, n]`, float or double. All functions throw invalid_argument if an element is
/// infinite or NaN. They run on the CPU.
namespace weft {

WEFT_COLD_BEGIN

/// Results: the values and the vectors, or the values alone.
template <class T>
struct eigh_op {
  static constexpr const char* name = "eigh";
  static constexpr primitive_set gradient_uses = detail::matrix_primitives;

  static kernel* prepare(const prepare_context& p) {
    return new detail::matrix_kernel<T, detail::eigh_task<T>>(p, {detail::matrix_extents(p.inputs[0])});
  }
  static bool optional(const node_def&, std::uint32_t output) { return output == 1; }
  /// V M V', where M has the gradients of the values on its diagonal and the symmetric part of V' G_v, divided by the
  /// differences of the values, elsewhere.
  static void gradient(gradient_context& g) {
    const symbol values = g.output(0), v = g.output(1);
    if (!g.has_upstream(1)) return g.set_gradient(0, matmul<T>(v * detail::as_rows(g.upstream(0)), v, false, true));
    const symbol apart = detail::with_diagonal<T>(detail::as_rows(values) - detail::as_columns(values), 1);
    const symbol on_diagonal = g.has_upstream(0) ? detail::as_rows(g.upstream(0)) : symbol(0);
    const symbol m = detail::with_diagonal<T>(matmul<T>(v, g.upstream(1), true) / apart, on_diagonal);
    g.set_gradient(0, matmul<T>(matmul<T>(v, 0.5 * (m + detail::adjoint(m))), v, false, true));
  }
};

template <class T>
struct eigvals_op {
  static constexpr const char* name = "eigvals";
  static kernel* prepare(const prepare_context& p) {
    return new detail::matrix_kernel<T, detail::eigvals_task<T>>(p, {{detail::matrix_extents(p.inputs[0])}});
  }
};

WEFT_COLD_END

namespace detail {

template <class X>
auto values_of_columns(const X& x) {
  return typed_result<value_t<X>, column_vectors<dims_t<X>>>{without_axis(extents_of(x), dims_t<X>::rank - 1)};
}

}  // namespace detail

/// Returns the eigenvalues `[..., n]` in ascending order and the eigenvectors, the columns of `[..., n, n]`, of
/// symmetric matrices (tf.linalg.eigh, torch.linalg.eigh): `auto [values, vectors] = eigh(a)`. Reads only the lower
/// triangle. The signs of eigenvectors are arbitrary, and their gradients require distinct eigenvalues. The gradient is
/// that of a symmetric matrix, as in PyTorch.
template <Expression Expr>
[[nodiscard]] auto eigh(const Expr& e) {
  using T = value_t<Expr>;
  static_assert(correct<square_mistake<Expr>>,
                "eigh: needs square matrices [..., n, n] of float or double: cast<float>(x)");
  if constexpr (correct<square_mistake<Expr>>) {
    detail::compile_matrix_gradients<T, Expr>();
    const auto x = materialize(e);
    return call_operation<eigh_op<T>>(
        std::tuple{detail::values_of_columns(x), typed_result<T, dims_t<Expr>>{extents_of(x)}}, {}, x);
  } else {
    return std::tuple{detail::same_after_mistake(e), detail::same_after_mistake(e)};
  }
}

/// Returns the eigenvalues of symmetric matrices in ascending order (torch.linalg.eigvalsh). A step computes no
/// eigenvectors unless a gradient reads them.
template <Expression Expr>
[[nodiscard]] auto eigvalsh(const Expr& e) {
  static_assert(correct<square_mistake<Expr>>,
                "eigvalsh: needs square matrices [..., n, n] of float or double: cast<float>(x)");
  return detail::unless<square_mistake<Expr>>(e, [](const auto& x) {
    if constexpr (Expr::symbolic)
      return std::get<0>(eigh(x));
    else
      return std::get<0>(call_operation<eigh_op<value_t<Expr>>>(std::tuple{detail::values_of_columns(x)}, {}, x));
  });
}

/// Returns the real and imaginary parts of the eigenvalues of any real matrices, `[..., n]` each and in no order
/// (tf.linalg.eigvals, torch.linalg.eigvals): `auto [real, imaginary] = eigvals(a)`. Has no gradient.
template <Expression Expr>
[[nodiscard]] auto eigvals(const Expr& e) {
  static_assert(correct<square_mistake<Expr>>,
                "eigvals: needs square matrices [..., n, n] of float or double: cast<float>(x)");
  if constexpr (correct<square_mistake<Expr>>) {
    const auto x = materialize(e);
    const auto part = detail::values_of_columns(x);
    return call_operation<eigvals_op<value_t<Expr>>>(std::tuple{part, part}, {}, x);
  } else {
    return std::tuple{detail::same_after_mistake(e), detail::same_after_mistake(e)};
  }
}

}  // namespace weft
