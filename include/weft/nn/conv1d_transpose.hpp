// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/convolution.hpp>
#include <weft/ops/images/conv1d_transpose.hpp>

/// A layer of 1-D transposed convolutions. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {

/// A transposed convolution of sequences [batch, length, in] with `Filters` filters [Window, Filters, in]:
/// activation(conv1d_transpose(x, weights) + bias), the result [batch, length', Filters]
/// (tf.keras.layers.Conv1DTranspose, torch.nn.ConvTranspose1d). `conv1d_transpose<4, 32,
/// conv1d_transpose_options{.stride = 2}>` doubles the length. Deduces `in` from the first operand, unless `In`
/// declares it. Weights are initialized with glorot_uniform, the bias with 0.
template <int Window, int Filters, conv1d_transpose_options Options = conv1d_transpose_options{}, int In = deduced,
          Element T = float>
struct conv1d_transpose {
  bool use_bias = true;
  activation_option<T> activation{};
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::conv1d_transpose};
  mutable typename detail::parameter_type<In != deduced, T, dims<Window, Filters, In>>::type weights{};
  mutable typename detail::parameter_type<In != deduced, T, dims<Filters>>::type bias{};

  template <class D>
  using kernel_of = dims<Window, Filters, detail::features_of<D, 3>()>;
  template <class D>
  using result_of = typename weft::detail::conv1d_transpose_result<D, kernel_of<D>, Options>::type;
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<sequences_are_not_of_rank_3<dims_t<X>>, features_mistake<X, T, In>,
                                        conv1d_transpose_mistake<dims_t<X>, kernel_of<dims_t<X>>, Options>>;

  template <Expression X>
  auto operator()(const X& sequences) const {
    static_assert(correct<operand_mistake<X>>,
                  "conv1d_transpose: needs a node [batch, length, channels] of the layer's element type, float or "
                  "double, and number of input channels");
    return detail::call_convolution<convolution_input_gradient_op<T>>(*this, sequences, [](const shape&) {
      return weft::detail::transposed_windows(weft::detail::of_one_row(Options), 1, Window);
    });
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"weights", &weights}, {"bias", &bias}});
  }
};

}  // namespace weft::nn
WEFT_COLD_END
