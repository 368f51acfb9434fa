#pragma once

#include <weft/nn/convolution.hpp>
#include <weft/ops/conv1d.hpp>

/// A layer of convolutions of sequences. Included by name, not by <weft/nn.hpp>.
WEFT_COLD_BEGIN
namespace weft::nn {
namespace detail {

/// `row` and `filters` are the extents of the images of one row that the sequences are, and of their filters.
template <class T>
symbol call_convolution_of_rows(const symbol& x, const layer_state& layer, std::initializer_list<parameter_request> p,
                                const shape& row, const shape& filters, const shape& result,
                                const weft::detail::window_options& options, bool use_bias,
                                const activation_option<T>& activation) {
  gpu::compile_kernels<convolution_op, T>();
  layer_call call(layer, x, p.begin(), use_bias ? 2 : 1, dtype_of<T>);
  const symbol y = record<convolution_op<T>>(
      {weft::reshape(x, row), weft::reshape(call[0], filters)}, {dtype_of<T>, result},
      weft::detail::call_windows(row, filters[0], filters[1], filters[3], options).attributes);
  const shape sequences(result[0], result[2], result[3]);
  return call.result(weft::reshape(activation.apply(y, use_bias ? call[1] : symbol()), sequences));
}

}  // namespace detail

/// Convolves sequences [batch, length, in] with `Filters` filters [Window, in, Filters]:
/// activation(conv1d(x, weights) + bias), the result [batch, length', Filters] (tf.keras.layers.Conv1D,
/// torch.nn.Conv1d). `conv1d<3, 32>` takes `in` from its first operand; `conv1d<3, 32, conv1d_options{}, 8>` names it.
/// Weights begin glorot_uniform, the bias 0.
template <int Window, int Filters, conv1d_options Options = conv1d_options{}, int In = deduced, Element T = float>
struct conv1d {
  bool use_bias = true;
  activation_option<T> activation{};
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{"conv1d"};
  mutable typename detail::parameter_type<In != deduced, T, dims<Window, In, Filters>>::type weights{};
  mutable typename detail::parameter_type<In != deduced, T, dims<Filters>>::type bias{};

  template <Expression X>
  auto operator()(const X& sequences) const {
    using D = dims_t<X>;
    using W = dims<Window, detail::features_of<D, 3>(), Filters>;
    using mistaken =
        first_mistake<sequences_are_not_of_rank_3<D>, features_mistake<X, T, In>, conv1d_mistake<D, W, Options>>;
    static_assert(correct<mistaken>,
                  "conv1d: needs a node [batch, length, channels] of the layer's elements and input channels");
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, D>(sequences);
    } else {
      using Row = typename weft::detail::as_row<D>::type;
      using Filter = typename weft::detail::as_filter_row<W>::type;
      using R = typename weft::detail::conv2d_result<Row, Filter, weft::detail::of_one_row(Options)>::type;
      using To = dims<weft::detail::extent_at<R, 0>::value, weft::detail::extent_at<R, 2>::value, Filters>;
      const symbol x = let(sequences).erased();
      if constexpr (R::is_computed) weft::detail::remember_formulas<R>(*x.builder());
      return weft::detail::make_node<T, To, device_t<X>>(detail::call_convolution_of_rows<T>(
          x, state, {{"weights", W::spec, weights_init, weights}, {"bias", shape(Filters), bias_init, bias}}, Row::spec,
          Filter::spec, R::spec, weft::detail::windows_of(weft::detail::of_one_row(Options)), use_bias, activation));
    }
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"weights", &weights}, {"bias", &bias}});
  }
};

}  // namespace weft::nn
WEFT_COLD_END
