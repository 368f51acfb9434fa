// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/convolution.hpp>
#include <weft/ops/images/grouped_conv2d.hpp>

/// A layer of grouped convolutions. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {
namespace detail {

/// The channels that a filter reads. If the operand has a wrong rank or the groups do not divide its channels, a value
/// that the checks reject.
template <class X, int Groups>
constexpr int channels_of_group() {
  if constexpr (X::rank == 4)
    return X::spec[3] > 0 ? static_cast<int>(X::spec[3] / Groups) : 1;
  else
    return 1;
}

}  // namespace detail

/// Convolves images [batch, height, width, in] with `Filters` filters in `Groups` groups, each of which reads its own
/// in / Groups channels: activation(grouped_conv2d(x, weights) + bias), weights [window, window, in / Groups, Filters],
/// the result [batch, height', width', Filters] (tf.keras.layers.Conv2D and torch.nn.Conv2d with groups).
/// Deduces `in` from the first operand, unless `In` declares it. Weights are initialized with glorot_uniform, the bias
/// with 0.
template <size2d Window, int Filters, int Groups, conv2d_options Options = conv2d_options{}, int In = deduced,
          Element T = float>
struct grouped_conv2d {
  static_assert(Groups > 0 && Filters % Groups == 0 && In % Groups == 0,
                "grouped_conv2d: the numbers of filters and of input channels must be multiples of the groups");
  bool use_bias = true;
  activation_option<T> activation{};
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::grouped_conv2d};
  mutable
      typename detail::parameter_type<In != deduced, T, dims<Window.height, Window.width, In / Groups, Filters>>::type
          weights{};
  mutable typename detail::parameter_type<In != deduced, T, dims<Filters>>::type bias{};

  template <class D>
  using kernel_of = dims<Window.height, Window.width, detail::channels_of_group<D, Groups>(), Filters>;
  template <class D>
  using result_of = weft::detail::conv2d_result<D, kernel_of<D>, Options>;
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<images_are_not_of_rank_4<dims_t<X>>, features_mistake<X, T, In>,
                                        grouped_conv2d_mistake<dims_t<X>, kernel_of<dims_t<X>>, Groups, Options>>;

  template <Expression X>
  auto operator()(const X& images) const {
    static_assert(correct<operand_mistake<X>>,
                  "grouped_conv2d: needs a node [batch, height, width, channels] of the layer's element type, float or "
                  "double, and number of input channels, a multiple of the groups");
    return detail::call_convolution<grouped_convolution_op<T>>(*this, images, [](const shape& x) {
      return weft::detail::grouped_attributes{
          weft::detail::call_windows(x, Window.height, Window.width, Filters, weft::detail::windows_of(Options))
              .attributes,
          Groups};
    });
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"weights", &weights}, {"bias", &bias}});
  }
};

}  // namespace weft::nn
WEFT_COLD_END
