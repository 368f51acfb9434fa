// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/ops/cpu/factorizations.hpp>
#include <weft/ops/linear_algebra/matrices.hpp>

/// Singular values. If m < n for matrices `[..., m, n]`, the types must show it; otherwise the functions throw
/// invalid_argument. They also throw invalid_argument if an element is infinite or NaN. They run on the CPU.
namespace weft {

/// Returns the sum of the singular values (torch.linalg.matrix_norm(a, "nuc")).
template <Expression Expr>
[[nodiscard]] auto nuclear_norm(const Expr& e) {
  return sum<-1>(svdvals(e));
}
/// Returns the largest singular value (torch.linalg.matrix_norm(a, 2)).
template <Expression Expr>
[[nodiscard]] auto spectral_norm(const Expr& e) {
  return max<-1>(svdvals(e));
}

WEFT_COLD_BEGIN

/// Results: U, S and V', or S alone.
template <class T>
struct svd_op {
  static constexpr const char* name = "svd";
  static constexpr primitive_set gradient_uses = detail::matrix_primitives;

  static kernel* prepare(const prepare_context& p) {
    const detail::matrix_extents a(p.inputs[0]);
    const bool only_values = p.node.outputs.size() == 1;
    const shape& s = p.outputs[only_values ? 0 : 1].extents;
    if (s[s.rank - 1] != static_cast<std::int64_t>(a.k))
      throw error(
          error_code::invalid_argument, name,
          {"needs at least as many rows as columns, unless the type shows that there are fewer; the matrices are ", a.m,
           "x", a.n});
    return new detail::matrix_kernel<T, detail::svd_task<T>>(p, {a, only_values});
  }
  static bool optional(const node_def&, std::uint32_t output) { return output != 1; }
  /// Townsend, Differentiating the singular value decomposition, 2016.
  static void gradient(gradient_context& g) {
    const symbol u = g.output(0), s = g.output(1), vt = g.output(2), rows = detail::as_rows(s);
    const std::size_t last = u.extents().rank - 1;
    if (!g.has_upstream(0) && !g.has_upstream(2))
      return g.set_gradient(0, matmul<T>(u * detail::as_rows(g.upstream(1)), vt));
    // The differences of squares of two singular values, with ones on the diagonal.
    const symbol squares = s * s;
    const symbol apart = detail::with_diagonal<T>(detail::as_rows(squares) - detail::as_columns(squares), 1);
    const auto skew = [&](symbol x) { return (x - detail::adjoint(x)) / apart; };
    symbol inner(0);
    if (g.has_upstream(0)) inner = inner + skew(matmul<T>(u, g.upstream(0), true)) * rows;
    if (g.has_upstream(2)) inner = inner + detail::as_columns(s) * skew(matmul<T>(vt, g.upstream(2), false, true));
    if (g.has_upstream(1)) inner = detail::with_diagonal<T>(inner, detail::as_rows(g.upstream(1)));
    symbol left = matmul<T>(u, inner), of_a(0);
    if (g.has_upstream(0) && u.extents()[last - 1] != u.extents()[last]) {
      const symbol x = g.upstream(0) / rows;
      left = left + x - matmul<T>(u, matmul<T>(u, x, true));
    }
    of_a = matmul<T>(left, vt);
    if (g.has_upstream(2) && vt.extents()[last - 1] != vt.extents()[last]) {
      const symbol x = g.upstream(2) / detail::as_columns(s);
      of_a = of_a + matmul<T>(u, x - matmul<T>(matmul<T>(x, vt, false, true), vt));
    }
    g.set_gradient(0, of_a);
  }
};

/// Singular values up to this count as 0.
struct svd_tolerance {
  attribute<double> given;  // negative: the default

  template <class T>
  double of(const detail::matrix_extents& a) const {
    if (given >= 0) return given;
    return double{std::numeric_limits<T>::epsilon()} * static_cast<double>(a.m > a.n ? a.m : a.n);
  }
};

template <class T>
struct matrix_rank_op {
  static constexpr const char* name = "matrix_rank";
  using attributes = svd_tolerance;

  static kernel* prepare(const prepare_context& p, const attributes& tolerance) {
    const detail::matrix_extents a(p.inputs[0]);
    return new detail::matrix_kernel<T, detail::rank_task<T>>(p, {a, tolerance.of<T>(a)});
  }
};

template <class T>
struct pinv_op {
  static constexpr const char* name = "pinv";
  using attributes = svd_tolerance;

  static kernel* prepare(const prepare_context& p, const attributes& tolerance) {
    const detail::matrix_extents a(p.inputs[0]);
    return new detail::matrix_kernel<T, detail::pinv_task<T>>(p, {a, tolerance.of<T>(a)});
  }
  /// Golub and Pereyra, SIAM J. Numer. Anal. 10(2), 1973: with the pseudoinverse P,
  /// -P' G P' + (I - A P) G' P P' + P' P G' (I - P A).
  static void gradient(gradient_context& g, const attributes&) {
    const symbol a = g.input(0), p = g.output(0), up = g.upstream();
    const symbol gp = matmul<T>(up, p, true), pg = matmul<T>(p, up, false, true);  // G' P and P G'
    const symbol outer = matmul<T>(gp, p, false, true), inner = matmul<T>(p, pg, true);
    g.set_gradient(0, outer - matmul<T>(a, matmul<T>(p, outer)) + inner - matmul<T>(matmul<T>(inner, p), a) -
                          matmul<T>(p, matmul<T>(up, p, false, true), true));
  }
};

WEFT_COLD_END

namespace detail {

template <class Expr>
using svd_mistake = first_mistake<operand_is_not_a_matrix<dims_t<Expr>>, not_floating<value_t<Expr>>>;

template <bool OnlyValues, class X>
auto call_svd(const X& x) {
  using T = value_t<X>;
  using D = dims_t<X>;
  constexpr std::size_t row = D::rank - 2, column = D::rank - 1;
  constexpr std::size_t smaller = is_wide<D> ? row : column;
  constexpr auto k = extent_of<D, smaller>();
  const shape& extents = extents_of(x);
  const std::int64_t count = extents[smaller];
  const typed_result<T, with_extent<column_vectors<D>, row, k>> s{resized(without_axis(extents, column), row, count)};
  compile_matrix_gradients<T, X>();
  if constexpr (OnlyValues)
    return call_operation<svd_op<T>>(std::tuple{s}, {}, x);
  else
    return call_operation<svd_op<T>>(
        std::tuple{typed_result<T, with_extent<D, column, k>>{resized(extents, column, count)}, s,
                   typed_result<T, with_extent<D, row, k>>{resized(extents, row, count)}},
        {}, x);
}

}  // namespace detail

/// Factorizes matrices `[..., m, n]` of float or double into u, s and vt with u diag(s) vt = a (torch.linalg.svd with
/// full_matrices=False; tf.linalg.svd returns s, u, v): `auto [u, s, vt] = svd(a)` are `[..., m, k]`, `[..., k]` in
/// descending order and `[..., k, n]`, k the smaller of m and n. The signs of singular vectors are arbitrary. Their
/// gradients require distinct and, unless m = n, positive singular values.
template <Expression Expr>
[[nodiscard]] auto svd(const Expr& e) {
  using mistake = detail::svd_mistake<Expr>;
  static_assert(correct<mistake>, "svd: needs matrices [..., m, n] of float or double: cast<float>(x)");
  if constexpr (correct<mistake>) {
    return detail::call_svd<false>(materialize(e));
  } else {
    const auto same = detail::same_after_mistake(e);
    return std::tuple{same, same, same};
  }
}

/// Returns the singular values in descending order, `[..., k]` (torch.linalg.svdvals). A step computes no singular
/// vectors unless a gradient reads them.
template <Expression Expr>
[[nodiscard]] auto svdvals(const Expr& e) {
  using mistake = detail::svd_mistake<Expr>;
  static_assert(correct<mistake>, "svdvals: needs matrices [..., m, n] of float or double: cast<float>(x)");
  if constexpr (correct<mistake>)
    return std::get<Expr::symbolic ? 1 : 0>(detail::call_svd<!Expr::symbolic>(materialize(e)));
  else
    return detail::same_after_mistake(e);
}

/// Returns the number of singular values above a tolerance relative to the largest one, `[...]` of std::int32_t
/// (tf.linalg.matrix_rank, torch.linalg.matrix_rank): by default the larger of m and n times the type's epsilon.
template <Expression Expr>
[[nodiscard]] auto matrix_rank(const Expr& e, double tolerance = -1) {
  using T = value_t<Expr>;
  using mistake = detail::svd_mistake<Expr>;
  static_assert(correct<mistake>, "matrix_rank: needs matrices [..., m, n] of float or double: cast<float>(x)");
  return detail::unless<mistake>(e, [&]<class X>(const X& x) {
    shape extents = extents_of(x);
    extents.rank -= 2;
    using To = without_axes<dims_t<X>, std::uint32_t{3} << (dims_t<X>::rank - 2)>;
    return materialize(cast<std::int32_t>(call_operation<matrix_rank_op<T>, T, To>(extents, {tolerance}, x)));
  });
}

/// Returns the Moore-Penrose inverse `[..., n, m]` of matrices `[..., m, n]` (tf.linalg.pinv, torch.linalg.pinv).
/// Singular values up to a tolerance relative to the largest one, as that of matrix_rank, count as 0. The gradient is
/// that of matrices of constant rank.
template <Expression Expr>
[[nodiscard]] auto pinv(const Expr& e, double tolerance = -1) {
  using T = value_t<Expr>;
  using mistake = detail::svd_mistake<Expr>;
  static_assert(correct<mistake>, "pinv: needs matrices [..., m, n] of float or double: cast<float>(x)");
  return detail::unless<mistake>(e, [&]<class X>(const X& x) {
    using D = dims_t<X>;
    constexpr std::size_t row = D::rank - 2, column = D::rank - 1;
    if constexpr (Expr::symbolic) gpu::compile_kernels<matmul_op, T>();
    using To = with_extent<with_extent<D, row, extent_of<D, column>()>, column, extent_of<D, row>()>;
    shape extents = extents_of(x);
    extents[row] = extents_of(x)[column], extents[column] = extents_of(x)[row];
    return call_operation<pinv_op<T>, T, To>(extents, {tolerance}, x);
  });
}

template <auto...>
auto svd(...) WEFT_DELETED;  // svd(a) is the reduced form (full_matrices=False); svdvals(a) are the values alone

}  // namespace weft
