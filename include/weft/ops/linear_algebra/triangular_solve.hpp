// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/cpu/factorizations.hpp>
#include <weft/ops/linear_algebra/lu.hpp>
#include <weft/ops/linear_algebra/matrices.hpp>

namespace weft {

/// Which system triangular_solve solves.
struct triangular_options {
  bool lower = true;           ///< reads only the lower triangle of a; otherwise the upper one
  bool adjoint = false;        ///< transposes a
  bool unit_diagonal = false;  ///< takes the diagonal for ones
};

WEFT_COLD_BEGIN

template <class T>
struct triangular_solve_op {
  static constexpr const char* name = "triangular_solve";
  static constexpr primitive_set gradient_uses = detail::matrix_primitives;
  struct attributes {
    attribute<bool> lower = true, adjoint = false, unit_diagonal = false;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    const std::size_t n = detail::matrix_extents(p.inputs[0]).n, columns = detail::matrix_extents(p.inputs[1]).n;
    return new detail::matrix_kernel<T, detail::triangular_task<T>>(
        p, {{n, n, !a.lower, a.adjoint, a.unit_diagonal}, columns});
  }
  /// The gradient of b solves the system of the other adjoint, and the gradient of a is -(that) X', of the triangle.
  static void gradient(gradient_context& g, const attributes& a) {
    const symbol x = g.output(0);
    const symbol of_b = of(g.input(0), g.upstream(), {a.lower, !a.adjoint, a.unit_diagonal});
    g.set_gradient(1, of_b);
    if (!g.needs_gradient(0)) return;
    const symbol of_a = -matmul<T>(a.adjoint ? x : of_b, a.adjoint ? of_b : x, false, true);
    const int unit = a.unit_diagonal ? 1 : 0;
    g.set_gradient(0, a.lower ? detail::lower_part<T>(of_a, -unit) : detail::upper_part<T>(of_a, unit));
  }
  static symbol of(symbol a, symbol b, const attributes& options) {
    return record<triangular_solve_op>({a, b}, b.info(), options);
  }
};

WEFT_COLD_END

/// Solves a x = b for x, with triangular matrices a `[..., n, n]` and b `[..., n, m]`, float or double
/// (tf.linalg.triangular_solve, torch.linalg.solve_triangular): `triangular_solve(a, b, {.lower = false})`. Throws
/// invalid_argument if an element of the diagonal is 0. Runs on the CPU.
template <Expression A, Expression B>
[[nodiscard]] auto triangular_solve(const A& a, const B& b, const triangular_options& options = {}) {
  using T = value_t<A>;
  using mistake = system_mistake<A, B>;
  static_assert(correct<mistake>,
                "triangular_solve: needs [..., n, n] and [..., n, m] of float or double: cast<float>(x)");
  return detail::unless<mistake>(a, b, [&](const auto& x, const auto& y) {
    detail::compile_matrix_gradients<T, A, B>();
    return call_operation<triangular_solve_op<T>, T, dims_t<B>>(
        extents_of(y), {options.lower, options.adjoint, options.unit_diagonal}, x, y);
  });
}

template <auto...>
auto triangular_solve(...) WEFT_DELETED;  // options are in braces: triangular_solve(a, b, {.lower = false})

}  // namespace weft
