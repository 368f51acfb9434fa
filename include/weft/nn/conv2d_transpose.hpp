// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/convolution.hpp>
#include <weft/ops/images/conv2d_transpose.hpp>

/// A layer of transposed convolutions. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {
/// A transposed convolution of images [batch, height, width, in] with `Filters` filters [window, window, Filters, in]:
/// activation(conv2d_transpose(x, weights) + bias), the result [batch, height', width', Filters]
/// (tf.keras.layers.Conv2DTranspose, torch.nn.ConvTranspose2d). `conv2d_transpose<4, 32,
/// conv2d_transpose_options{.stride = 2}>` doubles height and width. Deduces `in` from the first operand, unless `In`
/// declares it. Weights are initialized with glorot_uniform, the bias with 0.
template <size2d Window, int Filters, conv2d_transpose_options Options = conv2d_transpose_options{}, int In = deduced,
          Element T = float>
struct conv2d_transpose {
  bool use_bias = true;
  activation_option<T> activation{};
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::conv2d_transpose};
  mutable
      typename detail::parameter_type<In != deduced, T, dims<Window.height, Window.width, Filters, In>>::type weights{};
  mutable typename detail::parameter_type<In != deduced, T, dims<Filters>>::type bias{};

  template <class D>
  using kernel_of = dims<Window.height, Window.width, Filters, detail::features_of<D, 4>()>;
  template <class D>
  using result_of = weft::detail::conv2d_transpose_result<D, kernel_of<D>, Options>;
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<images_are_not_of_rank_4<dims_t<X>>, features_mistake<X, T, In>,
                                        conv2d_transpose_mistake<dims_t<X>, kernel_of<dims_t<X>>, Options>>;

  template <Expression X>
  auto operator()(const X& images) const {
    static_assert(correct<operand_mistake<X>>,
                  "conv2d_transpose: needs a node [batch, height, width, channels] of the layer's element type, float "
                  "or double, and number of input channels");
    return detail::call_convolution<convolution_input_gradient_op<T>>(*this, images, [](const shape&) {
      return weft::detail::transposed_windows(Options, Window.height, Window.width);
    });
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"weights", &weights}, {"bias", &bias}});
  }
};

}  // namespace weft::nn
WEFT_COLD_END
