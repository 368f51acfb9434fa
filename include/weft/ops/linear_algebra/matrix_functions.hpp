// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/cpu/factorizations.hpp>
#include <weft/ops/linear_algebra/lu.hpp>
#include <weft/ops/linear_algebra/matrices.hpp>

/// Functions of square matrices `[..., n, n]`, float or double.
namespace weft {

WEFT_COLD_BEGIN

/// The exponential of the first operand or, if there are others, its derivative in their directions. Derivatives are
/// symmetric in their directions, so the gradients are further derivatives.
template <class T>
struct matrix_exp_op {
  static constexpr const char* name = "matrix_exp";

  static kernel* prepare(const prepare_context& p) {
    return new detail::matrix_kernel<T, detail::matrix_exp_task<T>>(
        p, {detail::matrix_extents(p.inputs[0]).n, p.node.inputs.size() - 1});
  }
  static void gradient(gradient_context& g) {
    const symbol up = detail::adjoint(g.upstream());
    const std::size_t count = g.node.inputs.size();
    for (std::size_t k = 0; k < count; ++k) {
      if (!g.needs_gradient(k)) continue;
      sequence<symbol> operands;
      for (std::size_t i = 0; i < count; ++i)
        if (i == 0 || i != k) operands.push_back(g.input(i));
      operands.push_back(up);
      g.set_gradient(k, detail::adjoint(record<matrix_exp_op>(operands, {g.upstream().info()})));
    }
  }
};

WEFT_COLD_END

/// Returns the exponential of each matrix (tf.linalg.expm, torch.linalg.matrix_exp). It is NaN if an element is
/// infinite or NaN. Runs on the CPU.
template <Expression Expr>
[[nodiscard]] auto matrix_exp(const Expr& e) {
  using T = value_t<Expr>;
  static_assert(correct<square_mistake<Expr>>,
                "matrix_exp: needs square matrices [..., n, n] of float or double: cast<float>(x)");
  return detail::unless<square_mistake<Expr>>(e, [](const auto& x) {
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    return call_operation<matrix_exp_op<T>, T, dims_t<Expr>>(extents_of(x), {}, x);
  });
}

/// Returns the N-th power of each matrix (torch.linalg.matrix_power): `matrix_power<3>(a)`. A negative power is that of
/// the inverse, and power 0 is the identity.
template <int Power, Expression Expr>
[[nodiscard]] auto matrix_power(const Expr& e) {
  using mistake = square_mistake<Expr>;
  static_assert(correct<mistake>, "matrix_power: needs square matrices [..., n, n] of float or double: cast<float>(x)");
  if constexpr (!correct<mistake>) {
    return detail::same_after_mistake(e);
  } else if constexpr (Power < 0) {
    return matrix_power<-Power>(inverse(e));
  } else if constexpr (Power == 0) {
    return band_part(ones_like(materialize(e)), 0, 0);
  } else if constexpr (Power == 1) {
    return materialize(e);
  } else {
    const auto x = materialize(e);
    const auto half = matrix_power<Power / 2>(x);
    if constexpr (Power % 2 == 0)
      return matmul(half, half);
    else
      return matmul(matmul(half, half), x);
  }
}

template <auto...>
auto matrix_power(...) WEFT_DELETED;  // the exponent is a template argument: matrix_power<3>(a)

}  // namespace weft
