// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/convolution.hpp>
#include <weft/ops/images/conv3d.hpp>

/// A layer of convolutions of volumes. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Convolves volumes [batch, depth, height, width, in] with `Filters` filters [depth, height, width, in, Filters]:
/// activation(conv3d(x, weights) + bias), the result [batch, depth', height', width', Filters]
/// (tf.keras.layers.Conv3D, torch.nn.Conv3d). `conv3d<3, 32>` deduces `in` from its first operand; `conv3d<size3d(1, 3,
/// 3), 32, conv3d_options{}, 8>` declares it. Weights are initialized with glorot_uniform, the bias with 0.
template <size3d Window, int Filters, conv3d_options Options = conv3d_options{}, int In = deduced, Element T = float>
struct conv3d {
  static_assert(Filters > 0, "conv3d: the number of filters must be at least 1");
  bool use_bias = true;
  activation_option<T> activation{};
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::conv3d};
  mutable typename detail::parameter_type<In != deduced, T,
                                          dims<Window.depth, Window.height, Window.width, In, Filters>>::type weights{};
  mutable typename detail::parameter_type<In != deduced, T, dims<Filters>>::type bias{};

  template <class D>
  using kernel_of = dims<Window.depth, Window.height, Window.width, detail::features_of<D, 5>(), Filters>;
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<volumes_are_not_of_rank_5<dims_t<X>>, features_mistake<X, T, In>,
                                        conv3d_options_out_of_range<Options>,
                                        filter_is_larger_than_volume<dims_t<X>, kernel_of<dims_t<X>>, Options>>;

  template <Expression X>
  auto operator()(const X& given) const {
    using D = dims_t<X>;
    using Kernel = kernel_of<D>;
    using mistaken = operand_mistake<X>;
    static_assert(correct<mistaken>,
                  "conv3d: needs a node [batch, depth, height, width, channels] of the layer's element type, float or "
                  "double, and number of input channels");
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, D>(given);
    } else {
      const auto volumes = let(given);
      const auto convolve = [&](const symbol& w) {
        return weft::conv3d<Options>(volumes, weft::detail::make_node<T, Kernel, device_t<X>>(w));
      };
      using R = dims_t<decltype(convolve(volumes.erased()))>;
      return weft::detail::make_node<T, R, device_t<X>>(detail::call_biased<T>(
          volumes.erased(), state,
          {{"weights", Kernel::spec, weights_init, weights}, {"bias", shape(Filters), bias_init, bias}}, use_bias,
          activation, [&](const symbol& w) { return convolve(w).erased(); }));
    }
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"weights", &weights}, {"bias", &bias}});
  }
};

template <size3d Window, conv3d_options Options, class T>
struct conv3d<Window, -1, Options, deduced, T> {
  template <class... Arguments>
  explicit conv3d(const Arguments&...) {
    static_assert(correct<extents_are_template_arguments<Arguments...>>,
                  "conv3d: its sizes are template arguments: nn::conv3d<3, 32> layer{.activation = nn::relu}");
  }
};
template <class First, class... More>
conv3d(const First&, const More&...) -> conv3d<1, -1>;

}  // namespace weft::nn
WEFT_COLD_END
