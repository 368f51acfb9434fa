// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>
#include <utility>

#include <weft/nn/layer.hpp>
#include <weft/ops/elementwise/functions.hpp>

/// Activations as values: for options of layers, and as steps of `sequential`.
WEFT_COLD_BEGIN
namespace weft::nn {
namespace detail {

using weft::detail::record_untyped;

/// Formula(x + bias) as one fused operation. `bias` is a plain number if the layer has no bias. Formulas have no
/// parameter.
template <class Formula, class T>
symbol record_activation(const symbol& x, const symbol& bias, T = {}) {
  using leaf = node<T>;
  if constexpr (!std::is_floating_point_v<T>) {
    return x;  // a mistake that the layer reports
  } else {
    const auto apply = [&](const auto& e) {
      if constexpr (std::is_void_v<Formula>)
        return record_untyped(e, x.extents());
      else
        return record_untyped(weft::detail::function<Formula>(e), x.extents());
    };
    if (!bias.is_number()) return apply(leaf(x) + leaf(bias));
    if constexpr (std::is_void_v<Formula>)
      return x;
    else
      return apply(leaf(x));
  }
}

}  // namespace detail

/// The function of a formula and a parameter, if nn/activations.hpp defines one.
template <class Formula>
struct with_parameter;

/// Only some activations have a parameter.
template <class Formula>
    struct activation_has_no_parameter : mistake < !requires {
  with_parameter<Formula>::with(1.0);
}>{};

/// An elementwise function that a layer applies to its result in the same pass: a formula of
/// ops/elementwise/formulas.hpp or your own. It is also a layer: `sequential(dense<100>{}, relu, dense<10>{})`.
template <class Formula>
struct activation {
  template <Expression X>
  auto operator()(const X& x) const {
    return weft::detail::function<Formula>(x);
  }
  /// Returns the activation with a parameter, such as `nn::elu(0.5)`. Requires <weft/nn/activations.hpp>.
  template <Number Parameter>
  constexpr auto operator()(Parameter parameter) const {
    static_assert(correct<activation_has_no_parameter<Formula>>,
                  "only nn::elu and the activations of <weft/nn/activations.hpp>, which needs to be included, have a "
                  "parameter");
    if constexpr (correct<activation_has_no_parameter<Formula>>)
      return with_parameter<Formula>::with(parameter);
    else
      return *this;
  }
};

// The field's names, in namespace nn: after `using namespace weft::nn`, write nn::relu.
/// The activation max(x, 0).
inline constexpr activation<formula::relu> relu{};
/// The activation 1 / (1 + exp(-x)).
inline constexpr activation<formula::sigmoid> sigmoid{};
/// The hyperbolic tangent as an activation.
inline constexpr activation<formula::tanh> tanh{};
/// The activation log(1 + exp(x)).
inline constexpr activation<formula::softplus> softplus{};
/// The activation min(max(x, 0), 6): weft::relu6.
inline constexpr activation<formula::relu6> relu6{};
/// The activation x if x > 0, else exp(x) - 1: weft::elu.
inline constexpr activation<formula::elu> elu{};
/// The activation elu, scaled to preserve mean 0 and variance 1: weft::selu.
inline constexpr activation<formula::selu> selu{};
/// The activation x times the normal distribution function of x: weft::gelu.
inline constexpr activation<formula::gelu> gelu{};
/// The activation gelu with the distribution function approximated by tanh: weft::gelu_tanh.
inline constexpr activation<formula::gelu_tanh> gelu_tanh{};
/// The activation x * sigmoid(x): weft::silu.
inline constexpr activation<formula::silu> silu{};
/// The activation x / (1 + abs(x)): weft::softsign.
inline constexpr activation<formula::softsign> softsign{};
/// The activation min(max(x + 3, 0), 6) / 6: weft::hard_sigmoid.
inline constexpr activation<formula::hard_sigmoid> hard_sigmoid{};
/// The activation x * hard_sigmoid(x): weft::hard_swish.
inline constexpr activation<formula::hard_swish> hard_swish{};

namespace detail {

/// The type of a formula's function of nodes, such as `weft::relu`.
template <class Formula, class T, bool Floating = std::is_floating_point_v<T>>
struct activation_function {
  using type = decltype(weft::detail::function<Formula>(std::declval<const node<T>&>())) (*)(const node<T>&);
};
template <class Formula, class T>
struct activation_function<Formula, T, false> {
  using type = void (*)(Formula, T);  // matches no function: a mistake that the layer reports
};

}  // namespace detail

/// An activation must be a value of namespace nn, not a text, a number or a lambda.
template <class Given>
struct activation_is_not_known : mistake<true> {};

namespace detail {

/// An activation that records itself: those of nn/activations.hpp.
template <class Given, class T>
concept RecordsItself = requires(const Given& given, const symbol& x) {
  given.parameter;
  requires std::is_same_v<decltype(Given::record_with(x, x, T())), symbol>;
};

}  // namespace detail

/// An option of a layer: `dense<100> hidden{.activation = nn::relu}`. By default, the result is unchanged. The
/// functions of the same names, such as `weft::relu`, are also accepted.
template <class T>
class activation_option {
  template <class Formula>
  using function_of = typename detail::activation_function<Formula, T>::type;

 public:
  constexpr activation_option() = default;
  template <class Formula>
  constexpr activation_option(activation<Formula>)
      : record_(detail::record_activation<Formula, T>), is_relu_(std::is_same_v<Formula, formula::relu>) {}

#define WEFT_ACTIVATION(name) \
  constexpr activation_option(function_of<formula::name>) : activation_option(nn::name) {}
  WEFT_ACTIVATION(relu)
  WEFT_ACTIVATION(sigmoid)
  WEFT_ACTIVATION(tanh)
  WEFT_ACTIVATION(softplus)
  WEFT_ACTIVATION(relu6)
  WEFT_ACTIVATION(elu)
  WEFT_ACTIVATION(selu)
  WEFT_ACTIVATION(gelu)
  WEFT_ACTIVATION(gelu_tanh)
  WEFT_ACTIVATION(silu)
  WEFT_ACTIVATION(softsign)
  WEFT_ACTIVATION(hard_sigmoid)
  WEFT_ACTIVATION(hard_swish)
#undef WEFT_ACTIVATION
  template <detail::RecordsItself<T> Given>
  constexpr activation_option(const Given& given)
      : record_(Given::template record_with<T>), parameter_(static_cast<T>(given.parameter)) {}
  template <class Given>
    requires(!std::is_base_of_v<detail::member_probe, Given> && !detail::RecordsItself<Given, T>)
  constexpr activation_option(const Given&) {
    static_assert(correct<activation_is_not_known<Given>>,
                  "activation: needs a value of namespace nn, such as nn::relu, or nn::activation<my_formula>{}");
  }

  bool is_relu() const { return is_relu_; }
  /// Records the activation of x + bias, or of x if the bias is a plain number.
  symbol apply(const symbol& x, const symbol& bias) const { return record_(x, bias, parameter_); }

 private:
  symbol (*record_)(const symbol&, const symbol&, T) = detail::record_activation<void, T>;
  T parameter_ = {};
  bool is_relu_ = false;
};

namespace detail {

/// A call of a layer that computes activation(product(weights) + bias). Parameters: the weights, the bias.
template <class T, class Product>
symbol call_biased(const symbol& x, const layer_state& layer, std::initializer_list<parameter_request> p, bool use_bias,
                   const activation_option<T>& activation, Product product) {
  layer_call call(layer, x, p.begin(), use_bias ? 2 : 1, dtype_of<T>);
  return call.result(activation.apply(product(call[0]), use_bias ? call[1] : symbol()));
}

}  // namespace detail
}  // namespace weft::nn
WEFT_COLD_END
