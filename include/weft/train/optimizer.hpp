// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <tuple>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/effects.hpp>
#include <weft/graph/gradients.hpp>
#include <weft/graph/graph_of.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/graph/variables.hpp>
#include <weft/tensor/sequence.hpp>

#include <weft/train/optimizers.hpp>
#include <weft/train/recorded_norms.hpp>
#include <weft/train/recorded_updates.hpp>
#include <weft/train/variable_gradient.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

WEFT_COLD_BEGIN
namespace weft {

/// Returns the gradients of a scalar loss with their variables (compute_gradients of tf.train.Optimizer): a tuple for
/// the named variables or, without names or with variables_in(g, scope), a list. Without names the list has all
/// variables that the loss depends on. Throws invalid_argument if the loss does not depend on a named variable.
///
///     auto [of_w, of_b] = compute_gradients(loss, w, b);
///     of_w.gradient = min(max(of_w.gradient, -1.0f), 1.0f);
///     auto train = apply_gradients(momentum{}, of_w, of_b);
template <class Expr, class... V>
[[nodiscard]] auto compute_gradients(const Expr& loss, const V&... variables);

/// Returns a training step, an effect, that applies gradients with an optimizer (apply_gradients of
/// tf.train.Optimizer). `pairs` are results of compute_gradients() or parts of them; a step counter can follow. Throws
/// invalid_argument if a variable occurs twice or is not trained.
template <class Optimizer, class... Pair>
[[nodiscard]] effect apply_gradients(const Optimizer& optimizer, const Pair&... pairs);

/// Returns a training step, an effect, that updates every variable that the scalar loss depends on, or only the given
/// variables, with any optimizer. The same as `apply_gradients(optimizer, compute_gradients(loss, variables...))`.
/// Throws invalid_argument if the loss does not depend on a given variable. For a list, `minimize(adam{}, loss,
/// variables_in(g, "generator"))`, it updates the list's trained variables of the loss's type that the loss depends on,
/// and throws invalid_argument if there are none. Other optimizers of the graph are not affected. The arguments can
/// include a step counter, global_step(g): each step adds 1 to it (global_step of tf.train.Optimizer.minimize).
template <class Optimizer, class Expr, class... V>
  requires(!Expression<Optimizer>)
[[nodiscard]] auto minimize(const Optimizer& optimizer, const Expr& loss, const V&... variables);

/// An optimizer requires `variable_gradient`s, each with a variable and an expression of its type and extents.
template <class X>
struct applied_value_is_not_a_gradient : mistake<true> {};
template <class Gradient, class V>
struct applied_value_is_not_a_gradient<variable_gradient<Gradient, V>> : mistake<true> {};
template <class Gradient, class T, class D, class Dev>
  requires(Expression<Gradient>)
struct applied_value_is_not_a_gradient<variable_gradient<Gradient, variable_node<T, D, Dev>>>
    : mistake<!std::is_same_v<value_t<Gradient>, T> || !std::is_same_v<dims_t<Gradient>, D>> {};
template <class... Pair>
struct applied_value_is_not_a_gradient<std::tuple<Pair...>>
    : mistake<(!correct<applied_value_is_not_a_gradient<Pair>> || ...)> {};
template <class T>
struct applied_value_is_not_a_gradient<variable_gradients<T>> : mistake<false> {};
template <class Dev>
struct applied_value_is_not_a_gradient<variable_node<std::int64_t, dims<>, Dev>> : mistake<false> {};

/// A step counter can be passed to apply_gradients(), but not to compute_gradients().
template <class V>
struct counter_has_no_gradient : mistake<is_step_counter<V>> {};

#define WEFT_NEEDS_OF_OPTIMIZER                                                                                     \
  "an optimizer must have a name, at most 16 members, which are hyperparameters and numbers, and at most 8 slots; " \
  "update() must take the variable, its slots in order and the gradient, and advance() the scalar slots; see "      \
  "docs/how-to/optimizers.md"

namespace detail {

template <class... Member>
void append_each(sequence<hyperparameter>& all, const Member&... members) {
  const auto as_hyperparameter = [](const auto& m) {
    if constexpr (std::is_same_v<decltype(m), const hyperparameter&>)
      return m;
    else
      return hyperparameter(static_cast<double>(m));
  };
  (all.push_back(as_hyperparameter(members)), ...);
}
/// Appends the members of an optimizer as hyperparameters.
template <class Optimizer>
void append_members(const Optimizer& o, sequence<hyperparameter>& all) {
#define WEFT_MEMBERS(count, ...)                  \
  if constexpr (members_of<Optimizer> == count) { \
    const auto& [__VA_ARGS__] = o;                \
    append_each(all, __VA_ARGS__);                \
  }
  if constexpr (requires { typename Optimizer::extended; }) {  // a wrapper around another optimizer (decay.hpp)
    append_members(o.optimizer, all);
    append_each(all, o.weight_decay);
  } else {
    WEFT_MEMBERS(1, a)
    WEFT_MEMBERS(2, a, b)
    WEFT_MEMBERS(3, a, b, c)
    WEFT_MEMBERS(4, a, b, c, d)
    WEFT_MEMBERS(5, a, b, c, d, e)
    WEFT_MEMBERS(6, a, b, c, d, e, f)
    WEFT_MEMBERS(7, a, b, c, d, e, f, g)
    WEFT_MEMBERS(8, a, b, c, d, e, f, g, h)
    WEFT_MEMBERS(9, a, b, c, d, e, f, g, h, i)
    WEFT_MEMBERS(10, a, b, c, d, e, f, g, h, i, j)
    WEFT_MEMBERS(11, a, b, c, d, e, f, g, h, i, j, k)
    WEFT_MEMBERS(12, a, b, c, d, e, f, g, h, i, j, k, l)
    WEFT_MEMBERS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
    WEFT_MEMBERS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
    WEFT_MEMBERS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, p)
    WEFT_MEMBERS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, p, q)
  }
#undef WEFT_MEMBERS
}

template <class Optimizer>
void check_limits(const char* name, const hyperparameter* given) {
  if constexpr (requires { typename Optimizer::extended; }) {
    using inner = typename Optimizer::extended;
    check_limits<inner>(name, given);
    static constexpr hyperparameter_limit weight_decay{"weight_decay"};
    check_limits(name, given + members_of<inner>, &weight_decay, 1);
  } else if constexpr (requires { Optimizer::limits; }) {
    constexpr std::size_t count = sizeof Optimizer::limits / sizeof Optimizer::limits[0];
    static_assert(count == members_of<Optimizer>, "an optimizer's limits must list all hyperparameters in order");
    check_limits(name, given, Optimizer::limits, count);
  }
}

template <class Optimizer, class Compiler = gpu::this_compiler>
effect record_updates(graph& g, const Optimizer& optimizer, const sequence<applied_gradient>& all,
                      const sequence<symbol>& beside) {
  update_definition how{Optimizer::name,
                        nullptr,
                        slots_of<Optimizer>,
                        reinterpret_cast<const hyperparameter*>(&optimizer),
                        members_of<Optimizer>,
                        updates_by_rows<Optimizer>,
                        &optimizer,
                        norms_of<Optimizer>,
                        nullptr};
  sequence<hyperparameter> members;
  if constexpr (sizeof(Optimizer) != members_of<Optimizer> * sizeof(hyperparameter) && members_of<Optimizer> != 0) {
    append_members(optimizer, members);
    how.hyperparameters = members.data();
  }
  check_limits<Optimizer>(Optimizer::name, how.hyperparameters);
  if constexpr (norms_of<Optimizer> != 0) {
    how.norms = record_norms<Optimizer>;
    g.use(primitives_in<float, in_norms<Optimizer>>);
    g.use(primitives_in<double, in_norms<Optimizer>>);
    gpu::compiled<Compiler>::template primitives<float>();
    gpu::compiled<Compiler>::template primitives<double>();
  }
  if constexpr (slots_of<Optimizer> != 0) {
    const auto list = optimizer.slots();
    how.slots = list.all;
    return record_updates(g, how, all, beside);
  } else {
    return record_updates(g, how, all, beside);
  }
}

/// Returns the operation with which an optimizer updates elements of type T.
template <class Optimizer, class T>
const operation* update_of() {
  gpu::compile_kernels<update_ops<Optimizer>::template of, T>();
  return &operation_of<update_op<Optimizer, T>>;
}

/// Instantiates the optimizer's formula, so that its errors point to the call that names the optimizer.
template <class Optimizer, class T>
void check_formula(const Optimizer& optimizer) {
  if (false)
    use_formula<Optimizer, exact<T>>(optimizer, nullptr, slot_indices<Optimizer>(), scalar_indices<Optimizer>(),
                                     norm_indices<Optimizer>());
}

template <class Optimizer, class Gradient, class T, class D, class Dev>
void append_applied(const Optimizer& optimizer, const variable_gradient<Gradient, variable_node<T, D, Dev>>& pair,
                    sequence<applied_gradient>& all, sequence<symbol>&) {
  check_formula<Optimizer, T>(optimizer);
  all.push_back(
      {{let(pair.gradient).erased(), pair.variable.erased(), pair.loss, pair.beside}, update_of<Optimizer, T>()});
}
template <class Optimizer, class... Pair>
void append_applied(const Optimizer& optimizer, const std::tuple<Pair...>& pairs, sequence<applied_gradient>& all,
                    sequence<symbol>& beside) {
  std::apply([&](const auto&... pair) { (append_applied(optimizer, pair, all, beside), ...); }, pairs);
}
template <class Optimizer, class T>
void append_applied(const Optimizer& optimizer, const variable_gradients<T>& list, sequence<applied_gradient>& all,
                    sequence<symbol>&) {
  check_formula<Optimizer, T>(optimizer);
  for (const auto& pair : list) all.push_back({pair, update_of<Optimizer, T>()});
}
template <class Optimizer, class Dev>
void append_applied(const Optimizer&, const variable_node<std::int64_t, dims<>, Dev>& counter,
                    sequence<applied_gradient>&, sequence<symbol>& beside) {
  check_counter(Optimizer::name, counter.erased());
  beside.push_back(assign_add(counter, 1).erased());
}

/// Appends a variable, or the variables of a list, for a loss of type T.
template <class T, class V>
void append_variable(const V& named, const char* who, sequence<symbol>& variables) {
  if constexpr (std::is_same_v<V, variable_list>)
    append_listed(variables, named, dtype_of<T>, who);
  else
    variables.push_back(named.erased());
}
/// Appends an argument that follows a loss: a variable, or a counter that each step increments.
template <class Optimizer, class T, class V>
void append_named(const V& named, sequence<symbol>& variables, sequence<symbol>& beside) {
  if constexpr (is_step_counter<V>) {
    check_counter(Optimizer::name, named.erased());
    beside.push_back(assign_add(named, 1).erased());
  } else {
    append_variable<T>(named, Optimizer::name, variables);
  }
}

/// True if compute_gradients() of these variables returns a list: the types of a scope's variables are unknown.
template <class... V>
inline constexpr bool is_listed = sizeof...(V) == 0 || (std::is_same_v<V, variable_list> || ...);

}  // namespace detail

template <class Optimizer, class Expr, class... V>
  requires(!Expression<Optimizer>)
auto minimize(const Optimizer& optimizer, const Expr& loss, const V&... variables) {
  static_assert(correct<optimizer_mistake<Optimizer>>, WEFT_NEEDS_OF_OPTIMIZER);
  static_assert(correct<minimize_mistake<Expr, V...>>, WEFT_NEEDS_OF_MINIMIZE);
  if constexpr (correct<minimize_mistake<Expr, V...>> && correct<optimizer_mistake<Optimizer>>) {
    using T = value_t<Expr>;
    if (false)
      detail::use_formula<Optimizer, exact<T>>(optimizer, nullptr, detail::slot_indices<Optimizer>(),
                                               detail::scalar_indices<Optimizer>(), detail::norm_indices<Optimizer>());
    const auto root = let(loss);
    auto& g = *static_cast<graph*>(root.erased().builder());
    detail::use_gradient_primitives<T>(g);
    sequence<symbol> named, beside;
    (detail::append_named<Optimizer, T>(variables, named, beside), ...);
    sequence<detail::applied_gradient> all;
    for (const auto& pair : detail::record_gradients(g, root.erased(), Optimizer::name, named))
      all.push_back({pair, detail::update_of<Optimizer, T>()});
    return detail::record_updates(g, optimizer, all, beside);
  } else {
    return effect(symbol());
  }
}

template <class Optimizer, class... Pair>
effect apply_gradients(const Optimizer& optimizer, const Pair&... pairs) {
  using mistake = apply_mistake<Pair...>;
  static_assert(correct<optimizer_mistake<Optimizer>>, WEFT_NEEDS_OF_OPTIMIZER);
  static_assert(correct<mistake>, WEFT_NEEDS_OF_APPLY);
  if constexpr (correct<mistake> && correct<optimizer_mistake<Optimizer>>) {
    sequence<detail::applied_gradient> all;
    sequence<symbol> beside;
    (detail::append_applied(optimizer, pairs, all, beside), ...);
    if (all.empty()) throw error(error_code::invalid_argument, Optimizer::name, "there are no gradients to apply");
    return detail::record_updates(*static_cast<graph*>(all[0].pair.variable.builder()), optimizer, all, beside);
  } else {
    return effect(symbol());
  }
}

template <class Expr, class... V>
auto compute_gradients(const Expr& loss, const V&... variables) {
  using mistake = first_mistake<minimize_mistake<Expr, V...>, counter_has_no_gradient<V>...>;
  static_assert(correct<mistake>, WEFT_NEEDS_OF_MINIMIZE);
  if constexpr (correct<mistake>) {
    const auto root = let(loss);
    auto& g = *static_cast<graph*>(root.erased().builder());
    detail::use_gradient_primitives<value_t<Expr>>(g);
    sequence<symbol> named;
    (detail::append_variable<value_t<Expr>>(variables, "compute_gradients", named), ...);
    auto pairs = detail::record_gradients(g, root.erased(), "compute_gradients", named);
    if constexpr (detail::is_listed<V...>) {
      return variable_gradients<value_t<Expr>>{static_cast<decltype(pairs)&&>(pairs)};
    } else {
      auto next = [&, i = std::size_t{0}]() mutable { return pairs[i++].gradient; };
      using detail::node_of;
      return std::tuple{
          variable_gradient<decltype(node_of<V>(symbol())), V>{node_of<V>(next()), variables, root.erased()}...};
    }
  } else {
    return std::tuple{variables...};
  }
}

#undef WEFT_NEEDS_OF_OPTIMIZER

}  // namespace weft

WEFT_COLD_END

#pragma pop_macro("slots")
