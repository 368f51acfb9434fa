// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/convolution.hpp>
#include <weft/ops/images/conv1d.hpp>

/// A layer of 1-D convolutions. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {
/// Convolves sequences [batch, length, in] with `Filters` filters [Window, in, Filters]:
/// activation(conv1d(x, weights) + bias), the result [batch, length', Filters] (tf.keras.layers.Conv1D,
/// torch.nn.Conv1d). `conv1d<3, 32>` deduces `in` from its first operand; `conv1d<3, 32, conv1d_options{}, 8>` declares
/// it. Weights are initialized with glorot_uniform, the bias with 0.
template <int Window, int Filters, conv1d_options Options = conv1d_options{}, int In = deduced, Element T = float>
struct conv1d {
  bool use_bias = true;
  activation_option<T> activation{};
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::conv1d};
  mutable typename detail::parameter_type<In != deduced, T, dims<Window, In, Filters>>::type weights{};
  mutable typename detail::parameter_type<In != deduced, T, dims<Filters>>::type bias{};

  template <class D>
  using kernel_of = dims<Window, detail::features_of<D, 3>(), Filters>;
  template <class D>
  using result_of = typename weft::detail::conv1d_result<D, kernel_of<D>, Options>::type;
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<sequences_are_not_of_rank_3<dims_t<X>>, features_mistake<X, T, In>,
                                        conv1d_mistake<dims_t<X>, kernel_of<dims_t<X>>, Options>>;

  template <Expression X>
  auto operator()(const X& sequences) const {
    static_assert(correct<operand_mistake<X>>,
                  "conv1d: needs a node [batch, length, channels] of the layer's element type, float or double, and "
                  "number of input channels");
    return detail::call_convolution<convolution_op<T>>(*this, sequences, [](const shape& x) {
      return weft::detail::call_windows(shape(x[0], 1, x[1], x[2]), 1, Window, Filters,
                                        weft::detail::windows_of(weft::detail::of_one_row(Options)))
          .attributes;
    });
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"weights", &weights}, {"bias", &bias}});
  }
};

template <int Window, conv1d_options Options, class T>
struct conv1d<Window, -1, Options, deduced, T> {
  template <class... Arguments>
  explicit conv1d(const Arguments&...) {
    static_assert(correct<extents_are_template_arguments<Arguments...>>,
                  "conv1d: its sizes are template arguments: nn::conv1d<5, 32> layer{.activation = nn::relu}");
  }
};
template <class First, class... More>
conv1d(const First&, const More&...) -> conv1d<1, -1>;

}  // namespace weft::nn
WEFT_COLD_END
