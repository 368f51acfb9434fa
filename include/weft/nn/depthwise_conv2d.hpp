// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/grouped_conv2d.hpp>
#include <weft/ops/images/depthwise_conv2d.hpp>

/// A layer of depthwise convolutions. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Convolves each channel of images [batch, height, width, in] with `Multiplier` filters of its own:
/// activation(depthwise_conv2d(x, weights) + bias), weights [window, window, in, Multiplier], the result [batch,
/// height', width', in * Multiplier] (tf.keras.layers.DepthwiseConv2D; torch.nn.Conv2d with groups = in). Deduces `in`
/// from the first operand, unless `In` declares it. float or double. Weights are initialized with glorot_uniform, the
/// bias with 0.
template <size2d Window, int Multiplier = 1, conv2d_options Options = conv2d_options{}, int In = deduced,
          Element T = float>
struct depthwise_conv2d {
  bool use_bias = true;
  activation_option<T> activation{};
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::depthwise_conv2d};
  mutable typename detail::parameter_type<In != deduced, T, dims<Window.height, Window.width, In, Multiplier>>::type
      weights{};
  mutable typename detail::parameter_type<In != deduced, T, dims<In * Multiplier>>::type bias{};

  template <class D>
  using kernel_of = dims<Window.height, Window.width, detail::features_of<D, 4>(), Multiplier>;
  template <class D>
  using result_of = weft::detail::depthwise_result<D, kernel_of<D>, Options>;
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake =
      first_mistake<images_are_not_of_rank_4<dims_t<X>>, features_mistake<X, T, In>, not_floating<T>,
                    depthwise_conv2d_mistake<dims_t<X>, kernel_of<dims_t<X>>, Options>>;

  template <Expression X>
  auto operator()(const X& images) const {
    static_assert(
        correct<operand_mistake<X>>,
        "depthwise_conv2d: needs a node [batch, height, width, channels] of the layer's element type, float or "
        "double, and number of input channels");
    return detail::call_convolution<grouped_convolution_op<T>>(*this, images, [](const shape& x) {
      return weft::detail::grouped_attributes{
          weft::detail::call_windows(x, Window.height, Window.width, x[3] * Multiplier,
                                     weft::detail::windows_of(Options))
              .attributes,
          x[3]};
    });
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"weights", &weights}, {"bias", &bias}});
  }
};

}  // namespace weft::nn
WEFT_COLD_END
