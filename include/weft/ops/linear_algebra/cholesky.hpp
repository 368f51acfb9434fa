// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/linear_algebra/triangular_solve.hpp>

namespace weft {

WEFT_COLD_BEGIN

template <class T>
struct cholesky_op {
  static constexpr const char* name = "cholesky";
  static constexpr primitive_set gradient_uses = detail::matrix_primitives;

  static kernel* prepare(const prepare_context& p) {
    return new detail::matrix_kernel<T, detail::cholesky_task<T>>(p, {detail::matrix_extents(p.inputs[0])});
  }
  /// With P = L' G of the lower triangle, mirrored and halved: the inverse of L' times P times the inverse of L.
  static void gradient(gradient_context& g) {
    const symbol l = g.output(0), p = matmul<T>(l, g.upstream(), true);
    const symbol mirrored = 0.5 * (detail::lower_part<T>(p) + detail::adjoint(detail::lower_part<T>(p, -1)));
    const auto divide = [&](symbol x) { return triangular_solve_op<T>::of(l, x, {true, true, false}); };
    g.set_gradient(0, divide(detail::adjoint(divide(mirrored))));
  }
};

WEFT_COLD_END

/// Returns the lower triangular l with l l' = a for symmetric positive definite matrices `[..., n, n]`, float or double
/// (tf.linalg.cholesky). Reads only the lower triangle. Throws invalid_argument if a matrix is not positive definite.
/// The gradient is symmetric (torch.linalg.cholesky). Runs on the CPU.
template <Expression Expr>
[[nodiscard]] auto cholesky(const Expr& e) {
  using T = value_t<Expr>;
  static_assert(correct<square_mistake<Expr>>,
                "cholesky: needs square matrices [..., n, n] of float or double: cast<float>(x)");
  return detail::unless<square_mistake<Expr>>(e, [](const auto& x) {
    detail::compile_matrix_gradients<T, Expr>();
    return call_operation<cholesky_op<T>, T, dims_t<Expr>>(extents_of(x), {}, x);
  });
}

/// Solves a x = b for x, given l = cholesky(a), with l `[..., n, n]` and b `[..., n, m]` (tf.linalg.cholesky_solve;
/// torch.cholesky_solve takes b first).
template <Expression L, Expression B>
[[nodiscard]] auto cholesky_solve(const L& l, const B& b) {
  const auto lower = materialize(l);
  return triangular_solve(lower, triangular_solve(lower, b), {.adjoint = true});
}

}  // namespace weft
