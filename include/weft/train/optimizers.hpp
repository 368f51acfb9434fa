// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/update.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// The optimizers. Each is a formula for one element of a variable; docs/how-to/optimizers.md explains how to add one.
namespace weft {

/// The loss must be a scalar; reduce it with `mean(...)` or `sum(...)`.
template <class Dims>
struct minimized_value_is_not_scalar : mistake<Dims::rank != 0> {};

/// The loss must belong to a graph.
template <class X>
struct minimized_value_is_not_a_node : mistake<!Expression<X>> {};
template <>
struct minimized_value_is_not_a_node<void> : mistake<true> {};

/// Trained values must be variables of the loss's element type, one per argument.
template <class X, class T>
struct trained_value_is_not_a_variable : mistake<true> {};
template <class T, class D, class Dev>
struct trained_value_is_not_a_variable<variable_node<T, D, Dev>, T> : mistake<false> {};
/// Also allowed: the variables of a scope, variables_in(g, "generator").
class variable_list;
template <class T>
struct trained_value_is_not_a_variable<variable_list, T> : mistake<false> {};
/// Also allowed: a step counter, global_step(g).
template <class X>
inline constexpr bool is_step_counter = false;
template <class Dev>
inline constexpr bool is_step_counter<variable_node<std::int64_t, dims<>, Dev>> = true;

namespace detail {

template <class Expr, class... V>
constexpr auto find_minimize_mistake() {
  if constexpr (!Expression<Expr>)
    return minimized_value_is_not_a_node<Expr>{};
  else
    return first_mistake<
        minimized_value_is_not_scalar<dims_t<Expr>>, value_not_in_a_graph<Expr>, not_floating<value_t<Expr>>,
        std::conditional_t<is_step_counter<V>, mistake<false>, trained_value_is_not_a_variable<V, value_t<Expr>>>...>{};
}

}  // namespace detail

/// The mistake in a loss or its variables, if there is one.
template <class Expr, class... Variables>
using minimize_mistake = decltype(detail::find_minimize_mistake<Expr, Variables...>());

/// The mistake of passing variables in braces.
template <class Expr>
using trained_list_is_not_a_variable = trained_value_is_not_a_variable<std::initializer_list<Expr>, value_t<Expr>>;

// Defined in train/optimizer.hpp.
template <class X>
struct applied_value_is_not_a_gradient;
template <class... Pair>
using apply_mistake = first_mistake<applied_value_is_not_a_gradient<Pair>...>;
template <class Optimizer, class Expr, class... V>
  requires(!Expression<Optimizer>)
[[nodiscard]] auto minimize(const Optimizer& optimizer, const Expr& loss, const V&... variables);
template <class...>
auto minimize(...) WEFT_DELETED;  // takes an optimizer first: minimize(adam{}, loss), or adam{}.minimize(loss)
template <class Optimizer, class... Pair>
[[nodiscard]] effect apply_gradients(const Optimizer& optimizer, const Pair&... pairs);
// Error messages of minimize().
#define WEFT_NEEDS_OF_MINIMIZE                                                                               \
  "minimize: the loss must be a float or double scalar in a graph, use mean() or sum(); to train only some " \
  "variables, pass them after the loss, or pass variables_in(graph, \"scope\")"
#define WEFT_NEEDS_OF_APPLY                                                                                         \
  "apply_gradients: pass the result of compute_gradients(); each gradient must be an expression of its variable's " \
  "element type and extents"
#define WEFT_NEEDS_OF_VARIABLES "minimize: pass variables after the loss as separate arguments: minimize(loss, w, b)"

/// variable -= learning_rate * gradient (tf.train.GradientDescentOptimizer).
struct gradient_descent {
  hyperparameter learning_rate = 0.01;

  static constexpr const char* name = "gradient_descent";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"}};
  static constexpr fusion_kind fusion = fusion_kind::descent;  // into the product that computes the gradient
  static constexpr bool by_rows = true;

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V gradient) const {
    variable -= V(learning_rate) * gradient;
  }

#include <weft/train/members.inc>
};

/// velocity = momentum * velocity + gradient; variable -= learning_rate * velocity (tf.train.MomentumOptimizer; Polyak
/// 1964). With sparse gradients (ops/index/gather.hpp), the other rows keep their values and velocities.
struct momentum {
  hyperparameter learning_rate = 0.01, momentum = 0.9;

  static constexpr const char* name = "momentum";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"}, {"momentum", hyperparameter_range::up_to_one}};
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("momentum")}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& velocity, V gradient) const {
    velocity = V(momentum) * velocity + gradient;
    variable -= V(learning_rate) * velocity;
  }

#include <weft/train/members.inc>
};

/// Adam (Kingma and Ba 2015), as tf.train.AdamOptimizer: epsilon is the paper's "epsilon hat" (before section 2.1).
struct adam {
  hyperparameter learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

  static constexpr const char* name = "adam";
  static constexpr hyperparameter_limit limits[] = {{"learning_rate"},
                                                    {"beta1", hyperparameter_range::below_one},
                                                    {"beta2", hyperparameter_range::below_one},
                                                    {"epsilon"}};
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

#include <weft/train/members.inc>
};

namespace detail {

WEFT_COLD_BEGIN
WEFT_INSTANTIATE(kernel* prepare_declared<update_op<gradient_descent, float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<update_op<momentum, float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<update_op<adam, float>>(const prepare_context&));
WEFT_COLD_END

}  // namespace detail
}  // namespace weft

#pragma pop_macro("slots")
