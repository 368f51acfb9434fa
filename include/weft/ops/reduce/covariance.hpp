// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/diagonal.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/ops/reduce/reductions.hpp>

/// Covariances and correlations. Not part of <weft/weft.hpp>.
namespace weft {

/// The option of covariance that divides by the number of observations.
struct biased_option {};
/// See biased_option: `covariance<biased>(x)` (bias=True, correction=0).
inline constexpr biased_option biased{};

/// The first mistake in the operand of a covariance, if any.
template <class Expr>
using covariance_mistake = first_mistake<operand_is_not_a_matrix<dims_t<Expr>>, not_floating<value_t<Expr>>>;

/// The only option of covariance is `biased`.
template <auto... Options>
struct covariance_options_not_taken
    : mistake<!(std::is_same_v<std::remove_cvref_t<decltype(Options)>, biased_option> && ...)> {};

/// Returns the covariances of variables, `[..., v, v]`, from observations `[..., v, n]`, float or double (torch.cov,
/// numpy.cov). Divides by n - 1, or by n for `covariance<biased>(x)`.
template <auto... Options, Expression Expr>
[[nodiscard]] auto covariance(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = first_mistake<covariance_mistake<Expr>, covariance_options_not_taken<Options...>>;
  static_assert(correct<mistake>,
                "covariance: needs observations [..., variables, n] of float or double: covariance(x), "
                "covariance<biased>(x)");
  if constexpr (correct<mistake>) {
    const auto x = materialize(e);
    const auto centred = materialize(x - mean<-1, keep_dims>(x));
    const auto n = detail::reduced_elements<T, std::uint32_t{1} << (D::rank - 1)>(x);
    return materialize(matmul<transpose_of::b>(centred, centred) / (n - (sizeof...(Options) > 0 ? 0 : 1)));
  } else {
    return detail::same_after_mistake(e);
  }
}

/// Returns Pearson's correlations of variables, `[..., v, v]`, from observations `[..., v, n]`, float or double, within
/// [-1, 1] (torch.corrcoef, numpy.corrcoef). NaN for a variable that does not vary.
template <Expression Expr>
[[nodiscard]] auto correlation(const Expr& e) {
  static_assert(correct<covariance_mistake<Expr>>,
                "correlation: needs observations [..., variables, n] of float or double: correlation(x)");
  if constexpr (correct<covariance_mistake<Expr>>) {
    const auto c = covariance<biased>(e);
    const auto deviation = materialize(sqrt(diag_part(c)));
    return materialize(maximum(minimum(c / expand_dims<-1>(deviation) / expand_dims<-2>(deviation), 1), -1));
  } else {
    return detail::same_after_mistake(e);
  }
}

WEFT_OTHER_CALLS(covariance);   // covariance(x) of observations [..., variables, n], covariance<biased>(x)
WEFT_OTHER_CALLS(correlation);  // correlation(x) of observations [..., variables, n]

}  // namespace weft
