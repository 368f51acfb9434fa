#pragma once

#include <weft/ops/update.hpp>

/// The optimizers. Each is a formula over one element of a variable; docs/optimizers.md says how to write another one.
namespace weft {

// In train/optimizer.hpp.
template <class Optimizer, class Expr, class... V>
[[nodiscard]] effect minimize(const Optimizer& optimizer, const Expr& loss, const V&... variables);
template <class Optimizer, class... Pair>
[[nodiscard]] effect apply_gradients(const Optimizer& optimizer, const Pair&... pairs);
namespace detail {
template <class Expr>
effect refuse_braces(const Expr&);
}  // namespace detail

/// Members that any optimizer may have: `minimize(loss, variables...)` and `apply_gradients(pairs...)`, as the
/// functions of these names (train/optimizer.hpp).
#define WEFT_TRAINS                                                                      \
  template <class Expr, class... V>                                                      \
  [[nodiscard]] ::weft::effect minimize(const Expr& loss, const V&... variables) const { \
    return ::weft::minimize(*this, loss, variables...);                                  \
  }                                                                                      \
  template <::weft::Expression Expr>                                                     \
  ::weft::effect minimize(const Expr& loss, ::weft::detail::braces) const {              \
    return ::weft::detail::refuse_braces(loss);                                          \
  }                                                                                      \
  template <class... Pair>                                                               \
  [[nodiscard]] ::weft::effect apply_gradients(const Pair&... pairs) const {             \
    return ::weft::apply_gradients(*this, pairs...);                                     \
  }

/// variable -= learning_rate * gradient (tf.train.GradientDescentOptimizer).
struct gradient_descent {
  hyperparameter learning_rate = 0.01;

  static constexpr const char* name = "gradient_descent";
  static constexpr fusion_kind part = fusion_kind::descent;  // a product that is the gradient can make the update too
  static constexpr bool by_rows = true;

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V gradient) const {
    variable -= V(learning_rate) * gradient;
  }

  WEFT_TRAINS
};

/// velocity = momentum * velocity + gradient; variable -= learning_rate * velocity (tf.train.MomentumOptimizer; Polyak
/// 1964). Rows of a variable that a step does not take (ops/gather.hpp) keep their values and their velocity.
struct momentum {
  hyperparameter learning_rate = 0.01, momentum = 0.9;

  static constexpr const char* name = "momentum";
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("momentum")}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& velocity, V gradient) const {
    velocity = V(momentum) * velocity + gradient;
    variable -= V(learning_rate) * velocity;
  }

  WEFT_TRAINS
};

/// Adam (Kingma and Ba 2015), as tf.train.AdamOptimizer: epsilon is the "epsilon hat" before section 2.1 of the paper.
struct adam {
  hyperparameter learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

  static constexpr const char* name = "adam";
  constexpr auto slots() const {
    return slot_list{slot("m"), slot("v"), scalar_slot("beta1_power", 1), scalar_slot("beta2_power", 1)};
  }

  template <class V>
  WEFT_HOST_DEVICE void advance(V& beta1_power, V& beta2_power) const {
    beta1_power *= V(beta1);
    beta2_power *= V(beta2);
  }
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& m, V& v, V beta1_power, V beta2_power, V gradient) const {
    const V rate = V(learning_rate) * sqrt(V(1) - beta2_power) / (V(1) - beta1_power);
    m += (gradient - m) * (V(1) - V(beta1));
    v += (gradient * gradient - v) * (V(1) - V(beta2));
    variable -= m * rate / (sqrt(v) + V(epsilon));
  }

  WEFT_TRAINS
};

namespace detail {

WEFT_COLD_BEGIN
WEFT_INSTANTIATE(kernel* prepare_declared<update_op<gradient_descent, float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<update_op<momentum, float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<update_op<adam, float>>(const prepare_context&));
WEFT_COLD_END

}  // namespace detail
}  // namespace weft
