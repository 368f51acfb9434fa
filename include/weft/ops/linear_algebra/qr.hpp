// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/linear_algebra/triangular_solve.hpp>

namespace weft {

/// How many columns qr returns: of m x n matrices with m >= n, the first n (reduced) or all m.
enum class qr_mode : unsigned char { reduced, complete };

WEFT_COLD_BEGIN

/// Of matrices with at least as many rows as columns.
template <class T>
struct qr_op {
  static constexpr const char* name = "qr";
  static constexpr primitive_set gradient_uses = detail::matrix_primitives;

  static kernel* prepare(const prepare_context& p) {
    const detail::matrix_extents a(p.inputs[0]), q(p.outputs[0]);
    if (a.m < a.n)
      throw error(
          error_code::invalid_argument, name,
          {"needs at least as many rows as columns, unless the type shows that there are fewer; the matrices are ", a.m,
           "x", a.n});
    return new detail::matrix_kernel<T, detail::qr_task<T>>(p, {a, q.n});
  }
  /// (G_q + Q M) times the inverse of R', where M is the upper part of G_r R' - Q' G_q, mirrored.
  static void gradient(gradient_context& g) {
    const symbol q = g.output(0), r = g.output(1);
    if (!(q.extents() == g.input(0).extents()))
      throw error(error_code::unimplemented, name,
                  {"a complete factorization of matrices with more rows than columns has no gradient: use "
                   "qr_mode::reduced"});
    symbol m = g.has_upstream(1) ? matmul<T>(g.upstream(1), r, false, true) : symbol(0);
    if (g.has_upstream(0)) m = m - matmul<T>(q, g.upstream(0), true);
    m = detail::upper_part<T>(m) + detail::adjoint(detail::upper_part<T>(m, 1));
    m = matmul<T>(q, m);
    if (g.has_upstream(0)) m = g.upstream(0) + m;
    // X R' = M is R X' = M'.
    g.set_gradient(0, detail::adjoint(triangular_solve_op<T>::of(r, detail::adjoint(m), {false, false, false})));
  }
};

WEFT_COLD_END

/// Factorizes matrices `[..., m, n]` of float or double into q with orthonormal columns and an upper triangular r, q r
/// = a (tf.linalg.qr, torch.linalg.qr): `auto [q, r] = qr(a)` are `[..., m, k]` and `[..., k, n]`, k the smaller of m
/// and n; of `qr<qr_mode::complete>(a)`, q is `[..., m, m]` and r `[..., m, n]`. Signs are LAPACK's. If m < n, the
/// types must show it; otherwise throws invalid_argument. The gradient requires columns of full rank; complete
/// factorizations with m > n have none, as in PyTorch. Runs on the CPU.
template <qr_mode Mode = qr_mode::reduced, Expression Expr>
[[nodiscard]] auto qr(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = first_mistake<operand_is_not_a_matrix<D>, not_floating<T>>;
  static_assert(correct<mistake>, "qr: needs matrices [..., m, n] of float or double: cast<float>(x)");
  if constexpr (!correct<mistake>) {
    return std::tuple{detail::after_mistake<T, D>(e), detail::after_mistake<T, D>(e)};
  } else {
    constexpr std::size_t row = D::rank - 2, column = D::rank - 1;
    constexpr auto rows = extent_of<D, row>();
    constexpr auto columns = extent_of<D, column>();
    const auto x = materialize(e);
    if constexpr (detail::is_wide<D>) {
      const auto [q, r] = qr(slice<-1, 0, rows>(x));
      const auto rest = matmul<transpose_of::a>(q, slice<-1, rows, -1>(x));
      return std::tuple{q, concat<-1>(r, rest)};
    } else {
      detail::compile_matrix_gradients<T, Expr>();
      constexpr bool complete = Mode == qr_mode::complete;
      constexpr std::conditional_t<complete, decltype(rows), decltype(columns)> k{};
      const shape& extents = extents_of(x);
      const std::int64_t count = extents[complete ? row : column];
      return call_operation<qr_op<T>>(
          std::tuple{typed_result<T, with_extent<D, column, k>>{resized(extents, column, count)},
                     typed_result<T, with_extent<D, row, k>>{resized(extents, row, count)}},
          {}, x);
    }
  }
}

/// Returns the x that minimizes the norm of a x - b, for a `[..., m, n]` of full rank and b `[..., m, k]`, float or
/// double (tf.linalg.lstsq, torch.linalg.lstsq), by QR. If m < n, which the types must show, returns the solution of
/// the smallest norm. Throws invalid_argument if a diagonal element of r is 0. Runs on the CPU.
template <Expression A, Expression B>
[[nodiscard]] auto lstsq(const A& a, const B& b) {
  using T = value_t<A>;
  using DA = dims_t<A>;
  using DB = dims_t<B>;
  using mistake = first_mistake<operand_is_not_a_matrix<DA>, right_sides_differ<DA, DB>,
                                element_types_differ<T, value_t<B>>, not_floating<T>>;
  static_assert(correct<mistake>, "lstsq: needs [..., m, n] and [..., m, k] of float or double: cast<float>(x)");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, DB>(a, b);
  } else if constexpr (detail::is_wide<DA>) {
    const auto [q, r] = qr(detail::transpose_matrices(materialize(a)));
    return matmul(q, triangular_solve(r, b, {.lower = false, .adjoint = true}));
  } else {
    const auto [q, r] = qr(a);
    return triangular_solve(r, matmul<transpose_of::a>(q, b), {.lower = false});
  }
}

template <auto...>
auto qr(...) WEFT_DELETED;  // the mode is a template argument: qr<qr_mode::complete>(a)

}  // namespace weft
