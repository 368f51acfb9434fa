#pragma once

#include <weft/nn/layer.hpp>
#include <weft/ops/elementwise.hpp>

/// Activations as values: the option of a layer, and a step of `sequential`.
WEFT_COLD_BEGIN
namespace weft::nn {
namespace detail {

/// Formula(x + bias) as one fused operation; `bias` is empty where the layer has none. Extents are not part of these
/// types, so all layers share the code.
template <class Formula, class T, class Compiler = gpu::this_compiler>
symbol record_activation(const symbol& x, const symbol& bias) {
  using leaf = node<T>;
  const auto record = [&](const auto& e) {
    using expression = std::remove_cvref_t<decltype(e)>;
    gpu::compiled<Compiler>::template map<weft::detail::skeleton_of<expression>>();
    return weft::detail::record_expression<Compiler>(e, operation_of<weft::detail::elementwise_op>,
                                                     &differentiated<weft::detail::skeleton_of<expression>>,
                                                     dtype_of<T>, x.extents());
  };
  const auto apply = [&](const auto& e) {
    if constexpr (std::is_void_v<Formula>)
      return record(e);
    else
      return record(weft::detail::function<Formula>(e));
  };
  if (!bias.is_number()) return apply(leaf(x) + leaf(bias));
  if constexpr (std::is_void_v<Formula>)
    return x;
  else
    return apply(leaf(x));
}

}  // namespace detail

/// An elementwise function that layers apply to their result in the same pass: one of the formulas of
/// ops/formulas.hpp, or your own. A value of it is also a layer: `sequential(dense<100>{}, relu, dense<10>{})`.
template <class Formula>
struct activation {
  template <Expression X>
  auto operator()(const X& x) const {
    return weft::detail::function<Formula>(x);
  }
};

// The field's names, as values of namespace nn: beside `using namespace weft::nn`, write nn::relu.
inline constexpr activation<formula::relu> relu{};
inline constexpr activation<formula::sigmoid> sigmoid{};
inline constexpr activation<formula::tanh> tanh{};
inline constexpr activation<formula::softplus> softplus{};
inline constexpr activation<formula::relu6> relu6{};
inline constexpr activation<formula::elu> elu{};
inline constexpr activation<formula::selu> selu{};
inline constexpr activation<formula::gelu> gelu{};
inline constexpr activation<formula::gelu_tanh> gelu_tanh{};
inline constexpr activation<formula::silu> silu{};
inline constexpr activation<formula::softsign> softsign{};
inline constexpr activation<formula::hard_sigmoid> hard_sigmoid{};
inline constexpr activation<formula::hard_swish> hard_swish{};

/// The option of a layer: `dense<100> hidden{.activation = nn::relu}`. By default, the result stays as it is.
template <class T>
class activation_option {
 public:
  constexpr activation_option() = default;
  template <class Formula>
  constexpr activation_option(activation<Formula>) : record_(detail::record_activation<Formula, T>) {}

  /// Of x + bias, or of x where the bias is empty.
  symbol apply(const symbol& x, const symbol& bias) const { return record_(x, bias); }

 private:
  symbol (*record_)(const symbol&, const symbol&) = detail::record_activation<void, T>;
};

}  // namespace weft::nn
WEFT_COLD_END
