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

template <class Op>
symbol record_convolution(const symbol& x, const layer_state& layer, std::initializer_list<parameter_request> p,
                          const shape& result, const typename Op::attributes& a, bool use_bias,
                          const activation_option<typename Op::element>& activation) {
  using T = typename Op::element;
  gpu::compile_kernels<Op::template forward_op, T>();
  return call_biased(x, layer, p, use_bias, activation, [&](const symbol& weights) {
    const bool first = Op::kind == convolution_kind::forward;
    return record<Op>({first ? x : weights, first ? weights : x}, {dtype_of<T>, result}, a);
  });
}

/// Calls a layer by the operation Op, whose attributes are a function of the operand's extents.
template <class Op, class Layer, class X, class F>
auto call_convolution(const Layer& l, const X& e, const F& attributes) {
  using T = typename Op::element;
  if constexpr (!correct<typename Layer::template operand_mistake<X>>) {
    return weft::detail::after_mistake<T, dims_t<X>>(e);
  } else {
    using Kernel = typename Layer::template kernel_of<dims_t<X>>;
    using R = typename Layer::template result_of<dims_t<X>>;
    const symbol x = operand_of<R>(e);
    return weft::detail::make_node<T, R, device_t<X>>(
        record_convolution<Op>(x, l.state,
                               {{"weights", Kernel::spec, l.weights_init, l.weights},
                                {"bias", shape(R::spec[R::rank - 1]), l.bias_init, l.bias}},
                               R::spec, attributes(x.extents()), l.use_bias, l.activation));
  }
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
  template <class D>
  using result_of = weft::detail::conv2d_result<D, kernel_of<D>, Options>;
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<images_are_not_of_rank_4<dims_t<X>>, features_mistake<X, T, In>,
                                        conv2d_mistake<dims_t<X>, kernel_of<dims_t<X>>, Options>>;

  template <Expression X>
  auto operator()(const X& images) const {
    static_assert(correct<operand_mistake<X>>,
                  "conv2d: needs a node [batch, height, width, channels] of the layer's element type, float or double, "
                  "and number of input channels");
    return detail::call_convolution<convolution_op<T>>(*this, images, [](const shape& x) {
      return weft::detail::call_windows(x, Window.height, Window.width, Filters, weft::detail::windows_of(Options))
          .attributes;
    });
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
