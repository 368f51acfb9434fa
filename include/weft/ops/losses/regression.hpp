// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/losses/operands.hpp>

/// Losses of predicted numbers and of predicted distributions. Not part of <weft/weft.hpp>. All but l2_loss are
/// elementwise: `mean(mse_loss(predictions, targets))`.
namespace weft {

/// Returns half the sum of all squares, a scalar (tf.nn.l2_loss).
template <Expression Expr>
[[nodiscard]] auto l2_loss(const Expr& e) {
  static_assert(correct<not_floating<value_t<Expr>>>, "l2_loss: needs float or double: cast<float>(x)");
  return sum(square(e)) / 2;
}

/// Returns the square of each error (torch.nn.functional.mse_loss without its mean, tf.losses.mean_squared_error).
template <Expression P, Operand Y>
[[nodiscard]] auto mse_loss(const P& predictions, const Y& targets) {
  static_assert(correct<loss_mistake<P, Y>>,
                "mse_loss: needs predictions of float or double, and targets of their type and extents");
  return detail::loss_of(predictions, targets, [](const auto& x, const auto& y) { return square(x - y); });
}

/// Returns the magnitude of each error (torch.nn.functional.l1_loss without its mean, tf.losses.absolute_difference).
template <Expression P, Operand Y>
[[nodiscard]] auto l1_loss(const P& predictions, const Y& targets) {
  static_assert(correct<loss_mistake<P, Y>>,
                "l1_loss: needs predictions of float or double, and targets of their type and extents");
  return detail::loss_of(predictions, targets, [](const auto& x, const auto& y) { return abs(x - y); });
}

/// Returns half the square of the error if it is at most `delta`, and delta (|error| - delta / 2) otherwise
/// (tf.keras.losses.Huber, torch.nn.functional.huber_loss). `delta` must be positive.
template <Expression P, Operand Y>
[[nodiscard]] auto huber_loss(const P& predictions, const Y& targets, double delta = 1) {
  static_assert(correct<loss_mistake<P, Y>>,
                "huber_loss: needs predictions of float or double, and targets of their type and extents");
  return detail::loss_of(predictions, targets, [&](const auto& x, const auto& y) {
    const auto error = abs(x - y);
    const auto inner = minimum(error, delta);
    return square(inner) / 2 + delta * (error - inner);
  });
}

/// Returns huber_loss divided by beta, and for a beta of 0 the magnitude of the error (torch.nn.functional.
/// smooth_l1_loss).
template <Expression P, Operand Y>
[[nodiscard]] auto smooth_l1_loss(const P& predictions, const Y& targets, double beta = 1) {
  static_assert(correct<loss_mistake<P, Y>>,
                "smooth_l1_loss: needs predictions of float or double, and targets of their type and extents");
  return detail::loss_of(predictions, targets, [&](const auto& x, const auto& y) {
    return beta > 0 ? materialize(huber_loss(x, y, beta) / beta) : materialize(abs(x - y));
  });
}

/// Returns log(cosh(error)), without overflow (tf.keras.losses.LogCosh).
template <Expression P, Operand Y>
[[nodiscard]] auto log_cosh_loss(const P& predictions, const Y& targets) {
  static_assert(correct<loss_mistake<P, Y>>,
                "log_cosh_loss: needs predictions of float or double, and targets of their type and extents");
  return detail::loss_of(predictions, targets, [](const auto& x, const auto& y) {
    const auto error = abs(x - y);
    return error + log1p(exp(-2 * error)) - 0.69314718055994530942;
  });
}

/// The options of kl_div.
struct kl_div_options {
  bool log_targets = false;  ///< the targets are logarithms of probabilities
};

/// Returns t (log(t) - x) for a log-probability x and a probability t, 0 for t = 0; the sum over the classes is the
/// Kullback-Leibler divergence (torch.nn.functional.kl_div): `mean(sum<-1>(kl_div(log_softmax(x), t)))`.
template <Expression P, Expression Y>
[[nodiscard]] auto kl_div(const P& log_probabilities, const Y& targets, kl_div_options options = {}) {
  static_assert(correct<loss_mistake<P, Y>>,
                "kl_div: needs predictions of float or double, and targets of their type and extents");
  return detail::loss_of(log_probabilities, targets, [&](const auto& x, const auto& t) {
    return options.log_targets ? materialize(exp(t) * (t - x)) : materialize(t * (log(select(t == 0, 1, t)) - x));
  });
}

/// The options of poisson_nll_loss.
struct poisson_nll_options {
  bool log_input = true;  ///< predictions are logarithms of the rates; otherwise the rates
  bool full = false;      ///< adds Stirling's approximation of log(t!) for targets t above 1
  double epsilon = 1e-8;  ///< added to rates before their logarithm
};

/// Returns the negative log-likelihood of counts under Poisson distributions: exp(x) - t x, or x - t log(x + epsilon)
/// (torch.nn.functional.poisson_nll_loss, tf.nn.log_poisson_loss).
template <Expression P, Expression Y>
[[nodiscard]] auto poisson_nll_loss(const P& predictions, const Y& targets, poisson_nll_options options = {}) {
  static_assert(correct<loss_mistake<P, Y>>,
                "poisson_nll_loss: needs predictions of float or double, and targets of their type and extents");
  return detail::loss_of(predictions, targets, [&](const auto& x, const auto& t) {
    const auto loss = options.log_input ? materialize(exp(x) - t * x) : materialize(x - t * log(x + options.epsilon));
    if (!options.full) return loss;
    const auto many = select(t > 1, t, 1);
    return materialize(loss + select(t > 1, (many + 0.5) * log(many) - many + 0.91893853320467274178, 0));
  });
}

/// The options of gaussian_nll_loss.
struct gaussian_nll_options {
  bool full = false;      ///< adds log(2 pi) / 2
  double epsilon = 1e-6;  ///< smaller variances count as this one; their gradients ignore that, as in PyTorch
};

/// Returns the negative log-likelihood of targets under normal distributions: (log(v) + (x - t)^2 / v) / 2 for a mean x
/// and a variance v, which may be a number or broadcast (torch.nn.functional.gaussian_nll_loss).
template <Expression P, Expression Y, Expression V>
[[nodiscard]] auto gaussian_nll_loss(const P& means, const Y& targets, const V& variances,
                                     gaussian_nll_options options = {}) {
  static_assert(correct<loss_mistake<P, Y>>,
                "gaussian_nll_loss: needs predictions of float or double, and targets of their type and extents");
  return detail::loss_of(means, targets, [&](const auto& x, const auto& t) {
    const auto v = materialize(variances + stop_gradient(relu(options.epsilon - variances)));
    return 0.5 * (log(v) + square(x - t) / v) + (options.full ? 0.91893853320467274178 : 0.0);
  });
}

template <auto...>
auto mse_loss(...) WEFT_DELETED;  // predictions and targets, one loss for each element: mean(mse_loss(x, y))
template <auto...>
auto huber_loss(...) WEFT_DELETED;  // predictions, targets and delta, a number: mean(huber_loss(x, y, 0.5))
template <auto...>
auto kl_div(...) WEFT_DELETED;  // log-probabilities and targets: mean(sum<-1>(kl_div(log_softmax(x), t)))
template <auto...>
auto poisson_nll_loss(...) WEFT_DELETED;  // predictions and targets: mean(poisson_nll_loss(x, t, {.full = true}))

}  // namespace weft
