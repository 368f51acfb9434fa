// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>

#include <weft/ops/reduce/reduce.hpp>
#include <weft/train/changed_gradients.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// Weight decay: penalties in the loss, their gradients, and decoupled decay. A rate is a number or a scalar of the
/// graph.
WEFT_COLD_BEGIN
namespace weft {

/// Penalized values must be variables, or other float or double values in a graph.
template <class X>
struct penalty_of_non_node : mistake<true> {};
template <Expression X>
struct penalty_of_non_node<X> : first_mistake<value_not_in_a_graph<X>, not_floating<value_t<X>>> {};

/// Returns half the sum of the variables' squares (tf.nn.l2_loss of each), a term for a loss; its gradient is the
/// variable. `loss + 1e-4f * l2_penalty(w1, w2)`. The variables must have one element type.
template <class First, class... More>
[[nodiscard]] auto l2_penalty(const First& first, const More&... more);
/// Returns the sum of the variables' absolute values (tf.keras.regularizers.L1); its gradient is their signs.
template <class First, class... More>
[[nodiscard]] auto l1_penalty(const First& first, const More&... more);

/// Adds `rate * variable`, the gradient of `rate * l2_penalty(...)`, to each gradient (weight_decay of
/// torch.optim.SGD). A sparse gradient becomes dense, because all elements decay.
template <class Gradients>
[[nodiscard]] auto add_l2(const Gradients& gradients, hyperparameter rate);
/// Adds `rate` times the variable's signs, the gradient of `rate * l1_penalty(...)`, to each gradient.
template <class Gradients>
[[nodiscard]] auto add_l1(const Gradients& gradients, hyperparameter rate);

/// An optimizer that first subtracts `weight_decay` times the variable (Loshchilov and Hutter 2019), as
/// DecoupledWeightDecayExtension of tf.contrib.opt does: the learning rate is not a factor. With sparse gradients, only
/// the rows that are used decay. To exclude variables such as biases, pass them to the optimizer itself:
///
///     auto train = group(decoupled_weight_decay{adam{}, 1e-5}.minimize(loss, w1, w2), adam{}.minimize(loss, b1, b2));
///
/// With adam it is AdamW whose decay is learning_rate * weight_decay; `adamw` (train/adamw.hpp) is PyTorch's. Register
/// it on parameter servers: `update_rules::add<decoupled_weight_decay<adam>>()`.
template <class Optimizer>
struct decoupled_weight_decay;

namespace detail {

template <std::size_t Count>
struct joined_text {
  char text[Count] = {};
};
constexpr std::size_t length_of(const char* text) {
  std::size_t n = 0;
  while (text[n] != 0) ++n;
  return n;
}
inline constexpr char decayed_prefix[] = "decayed_";
template <class Optimizer>
constexpr auto name_decayed() {
  joined_text<sizeof decayed_prefix + length_of(Optimizer::name)> to;
  std::size_t n = 0;
  for (const char* from : {&decayed_prefix[0], static_cast<const char*>(Optimizer::name)})
    for (; *from != 0; ++from) to.text[n++] = *from;
  return to;
}
template <class Optimizer>
inline constexpr auto decayed_name = name_decayed<Optimizer>();

}  // namespace detail

template <class Optimizer>
struct decoupled_weight_decay {
  using extended = Optimizer;

  Optimizer optimizer;
  hyperparameter weight_decay = 0;

  static constexpr const char* name = detail::decayed_name<Optimizer>.text;
  static constexpr bool by_rows = detail::updates_by_rows<Optimizer>;
  constexpr auto slots() const
    requires(detail::slots_of<Optimizer> != 0)
  {
    return optimizer.slots();
  }

  // Each function exists if the optimizer has it.
  template <class... V, class Inner = Optimizer>
  WEFT_HOST_DEVICE auto advance(V&... scalars) const -> decltype(std::declval<const Inner&>().advance(scalars...)) {
    optimizer.advance(scalars...);
  }
  template <class V, class... More, class Inner = Optimizer>
  auto norms(V variable, More... more) const -> decltype(std::declval<const Inner&>().norms(variable, more...)) {
    return optimizer.norms(variable - weight_decay * variable, more...);
  }
  template <class V, class... More, class Inner = Optimizer>
  WEFT_HOST_DEVICE auto update(V& variable, More&&... more) const
      -> decltype(std::declval<const Inner&>().update(variable, more...)) {
    variable -= V(weight_decay) * variable;
    optimizer.update(variable, more...);
  }

#include <weft/train/members.inc>
};
template <class Optimizer>
decoupled_weight_decay(Optimizer, hyperparameter) -> decoupled_weight_decay<Optimizer>;

namespace detail {

inline void check_rate(const char* who, const hyperparameter& rate) {
  if (rate.is_number() && !(rate.number() >= 0 && std::isfinite(rate.number())))
    throw error(error_code::invalid_argument, who, "the rate must be finite and at least 0");
}

inline symbol_gradients record_penalty(symbol_gradients all, const char* who, const hyperparameter& rate, bool signs) {
  check_rate(who, rate);
  for (auto& each : all) {
    const symbol v = each.variable;
    each.gradient = each.gradient + in_type(rate, v.type()) * (signs ? math::sign(v) : v);
  }
  return all;
}

template <class Gradients>
auto add_penalty(const Gradients& gradients, const char* who, const hyperparameter& rate, bool signs) {
  if constexpr (correct<changed_value_is_not_a_gradient<Gradients>>)
    return changed(gradients, record_penalty(symbols_of(who, gradients), who, rate, signs));
  else
    return gradients;
}

}  // namespace detail

template <class First, class... More>
auto l2_penalty(const First& first, const More&... more) {
  using mistake = first_mistake<penalty_of_non_node<First>, penalty_of_non_node<More>...>;
  static_assert(correct<mistake>,
                "l2_penalty: pass float or double variables as separate arguments: l2_penalty(w1, w2)");
  if constexpr (correct<mistake>)
    return let((sum(square(first)) + ... + sum(square(more))) * static_cast<value_t<First>>(0.5));
  else
    return node<float>(symbol());
}
template <class First, class... More>
auto l1_penalty(const First& first, const More&... more) {
  using mistake = first_mistake<penalty_of_non_node<First>, penalty_of_non_node<More>...>;
  static_assert(correct<mistake>,
                "l1_penalty: pass float or double variables as separate arguments: l1_penalty(w1, w2)");
  if constexpr (correct<mistake>)
    return let((sum(abs(first)) + ... + sum(abs(more))));
  else
    return node<float>(symbol());
}

template <class Gradients>
auto add_l2(const Gradients& gradients, hyperparameter rate) {
  static_assert(correct<changed_value_is_not_a_gradient<Gradients>>, WEFT_NEEDS_OF_CHANGE("add_l2"));
  return detail::add_penalty(gradients, "add_l2", rate, false);
}
template <class Gradients>
auto add_l1(const Gradients& gradients, hyperparameter rate) {
  static_assert(correct<changed_value_is_not_a_gradient<Gradients>>, WEFT_NEEDS_OF_CHANGE("add_l1"));
  return detail::add_penalty(gradients, "add_l1", rate, true);
}

}  // namespace weft
WEFT_COLD_END

#pragma pop_macro("slots")
