// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/activation.hpp>
#include <weft/nn/dense.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/images/convolution.hpp>

WEFT_COLD_BEGIN
namespace weft::nn {
namespace detail {

template <class T>
symbol call_convolution(const symbol& x, const layer_state& layer, std::initializer_list<parameter_request> p,
                        const shape& result, const weft::detail::window_options& options, bool use_bias,
                        const activation_option<T>& activation) {
  gpu::compile_kernels<convolution_op, T>();
  const shape& window = p.begin()->extents;
  return call_biased(x, layer, p, use_bias, activation, [&](const symbol& weights) {
    return record<convolution_op<T>>(
        {x, weights}, {dtype_of<T>, result},
        weft::detail::call_windows(x.extents(), window[0], window[1], window[3], options).attributes);
  });
}

}  // namespace detail

/// Convolves images [batch, height, width, in] with `Filters` filters [window, window, in, Filters]:
/// activation(conv2d(x, weights) + bias), the result [batch, height', width', Filters] (tf.keras.layers.Conv2D,
/// torch.nn.Conv2d). Stride, padding and dilation are `Options`; by default, stride 1 and the same height and width.
/// `conv2d<5, 32>` deduces `in` from its first operand; `conv2d<5, 32, conv2d_options{}, 3>` declares it. Weights are
/// initialized with glorot_uniform, the bias with 0.
template <size2d Window, int Filters, conv2d_options Options = conv2d_options{}, int In = deduced, Element T = float>
struct conv2d {
  static_assert(Filters > 0, "conv2d: the number of filters must be at least 1");
  bool use_bias = true;
  activation_option<T> activation{};
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::conv2d};
  mutable
      typename detail::parameter_type<In != deduced, T, dims<Window.height, Window.width, In, Filters>>::type weights{};
  mutable typename detail::parameter_type<In != deduced, T, dims<Filters>>::type bias{};

  template <class D>
  using kernel_of = dims<Window.height, Window.width, detail::features_of<D, 4>(), Filters>;
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<images_are_not_of_rank_4<dims_t<X>>, features_mistake<X, T, In>,
                                        conv2d_mistake<dims_t<X>, kernel_of<dims_t<X>>, Options>>;

  template <Expression X>
  auto operator()(const X& images) const {
    using D = dims_t<X>;
    using Kernel = kernel_of<D>;
    using mistaken = operand_mistake<X>;
    static_assert(correct<mistaken>,
                  "conv2d: needs a node [batch, height, width, channels] of the layer's element type, float or double, "
                  "and number of input channels");
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, D>(images);
    } else {
      using R = typename weft::detail::conv2d_result<D, Kernel, Options>::type;
      return weft::detail::make_node<T, R, device_t<X>>(detail::call_convolution<T>(
          detail::operand_of<R>(images), state,
          {{"weights", Kernel::spec, weights_init, weights}, {"bias", shape(Filters), bias_init, bias}}, R::spec,
          weft::detail::windows_of(Options), use_bias, activation));
    }
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"weights", &weights}, {"bias", &bias}});
  }
};

template <size2d Window, conv2d_options Options, class T>
struct conv2d<Window, -1, Options, deduced, T> {
  template <class... Arguments>
  explicit conv2d(const Arguments&...) {
    static_assert(correct<extents_are_template_arguments<Arguments...>>,
                  "conv2d: its sizes are template arguments: nn::conv2d<5, 32> layer{.activation = nn::relu}");
  }
};
template <class First, class... More>
conv2d(const First&, const More&...) -> conv2d<1, -1>;

}  // namespace weft::nn
WEFT_COLD_END
