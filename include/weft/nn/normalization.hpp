#pragma once

#include <weft/graph/effects.hpp>
#include <weft/nn/activation.hpp>
#include <weft/nn/dense.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/moving_average.hpp>
#include <weft/ops/normalization.hpp>
#include <weft/ops/shape.hpp>

WEFT_COLD_BEGIN
namespace weft::nn {
namespace detail {

struct batch_norm_call {
  double momentum, epsilon;
  mode how;
};

/// Notes that training moves `average` towards `value`, once for calls that share their nodes.
void note_average(const symbol& average, const symbol& value, const symbol& count, const operation& op, double momentum,
                  bool is_variance);

#if WEFT_DEFINITIONS

WEFT_DECL void note_average(const symbol& average, const symbol& value, const symbol& count, const operation& op,
                            double momentum, bool is_variance) {
  graph& g = graph_of(average);
  for (const std::uint32_t n : g.updates()) {
    const node_def& noted = g[n].def;
    if (noted.op->id == op.id && noted.inputs[0] == average.id() && noted.inputs[1] == value.id()) return;
  }
  const symbol moved =
      weft::detail::record_call(op, {average, value, count}, average.info(),
                                words_of(weft::detail::moving_average_attributes{momentum, is_variance}));
  g.note_update(moved.id().node);
}

#endif

/// Parameters: scale, offset, moving_mean, moving_variance. `residual` is a number where the call has none.
template <class T>
symbol call_batch_norm(const symbol& x, const symbol& residual, const layer_state& layer,
                       std::initializer_list<parameter_request> p, const batch_norm_call& o,
                       const activation_option<T>& activation) {
  using leaf = node<T>;
  layer_call call(layer, x, p.begin(), p.size(), dtype_of<T>);
  const symbol scale = call[0], offset = call[1], mean = call[2], variance = call[3];
  symbol y;
  if (o.how == mode::training) {
    gpu::compile_kernels<batch_normalization_op, T>();
    sequence<symbol> operands{x, scale, offset};
    if (!residual.is_number()) operands.push_back(residual);
    const value_info c = scale.info();
    y = record<batch_normalization_op<T>>(operands, {x.info(), c, c, c, c}, {o.epsilon, activation.is_relu()});
    gpu::compile_kernels<moving_average_op, T>();
    // Elements of each channel, which at run time may be none.
    const T channels = static_cast<T>(c.extents[0]);
    const symbol count = let(cast<T>(size(leaf(x))) / channels).erased();
    const operation& update = operation_of<moving_average_op<T>>;
    note_average(mean, y.output(1), count, update, o.momentum, false);
    note_average(variance, y.output(2), count, update, o.momentum, true);
  } else {
    const symbol factor =
        record_untyped(leaf(scale) * rsqrt(leaf(variance) + static_cast<T>(o.epsilon)), scale.extents());
    const auto normal = (leaf(x) - leaf(mean)) * leaf(factor) + leaf(offset);
    const auto finish = [&](const auto& e) {
      return activation.is_relu() ? record_untyped(weft::relu(e), x.extents()) : record_untyped(e, x.extents());
    };
    y = residual.is_number() ? finish(normal) : finish(normal + leaf(residual));
  }
  return call.result(activation.is_relu() ? y : activation.apply(y, symbol()));
}

}  // namespace detail

/// Batch normalization of [..., channels] over all other axes (Ioffe and Szegedy, ICML 2015;
/// tf.keras.layers.BatchNormalization, torch.nn.BatchNorm2d): activation((x - mean) / sqrt(variance + epsilon) * scale
/// + offset + residual).
///
/// For training, mean and variance are the batch's, and each step moves the moving averages: average * momentum + value
/// * (1 - momentum), of the unbiased variance. `minimize` takes these updates along if it is recorded after the call.
/// Several calls in one step, of siamese networks for instance, all move the averages; calls with the same operand are
/// one. A batch without elements leaves them as they are. For inference, mean and variance are the moving averages.
/// Averages are shared by the workers of a cluster. The defaults are Keras's; torch.nn.BatchNorm2d has `{.momentum =
/// 0.9, .epsilon = 1e-5}`. A residual, an operand of the extents of x, and a ReLU cost no further pass.
template <int In = deduced, Element T = float>
struct batch_norm {
  double momentum = 0.99;
  double epsilon = 1e-3;
  activation_option<T> activation{};
  stored_initializer scale_init = init::ones{};
  stored_initializer offset_init = init::zeros{};
  layer_state state{detail::layer_class::batch_norm};
  using parameter_type = typename detail::parameter_type<In != deduced, T, dims<In>>::type;
  mutable parameter_type scale{}, offset{}, moving_mean{}, moving_variance{};

  template <Expression X>
  auto operator()(const X& x, mode how) const {
    return call(x, symbol(), how);
  }
  template <Expression X, Expression Residual>
  auto operator()(const X& x, const Residual& residual, mode how) const {
    using mistaken = residual_mistake<X, Residual>;
    static_assert(correct<mistaken>, "batch_norm: the residual must have the extents and elements of the operand");
    if constexpr (correct<mistaken>)
      return call(x, let(residual).erased(), how);
    else
      return call(x, symbol(), how);
  }
  template <Expression X, class... Residual>
  auto operator()(const X& x, const Residual&...) const {
    static_assert(correct<mode_is_missing<batch_norm>>,
                  "batch_norm: needs a mode, nn::mode::training or nn::mode::inference: norm(x, how)");
    return call(x, symbol(), mode::inference);
  }
  static constexpr bool needs_mode = true;

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(
        path, state,
        {{"scale", &scale}, {"offset", &offset}, {"moving_mean", &moving_mean}, {"moving_variance", &moving_variance}});
  }

 private:
  template <Expression X>
  auto call(const X& x, const symbol& residual, mode how) const {
    using D = dims_t<X>;
    using mistaken = features_mistake<X, T, In>;
    static_assert(
        correct<mistaken>,
        "batch_norm: needs a node [..., channels] of the layer's elements, float or double, and its channels");
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, D>(x);
    } else {
      const stored_initializer zeros = init::zeros{}, ones = init::ones{};
      const shape c(D::spec[D::rank - 1]);
      return weft::detail::make_node<T, D, device_t<X>>(
          detail::call_batch_norm<T>(let(x).erased(), residual, state,
                                     {{"scale", c, scale_init, scale},
                                      {"offset", c, offset_init, offset},
                                      {"moving_mean", c, zeros, moving_mean, variable_kind::averaged},
                                      {"moving_variance", c, ones, moving_variance, variable_kind::averaged}},
                                     {momentum, epsilon, how}, activation));
    }
  }
};

namespace detail {

/// The node normal(x, parameter...) of the layer's parameters, which have the last extent of x.
template <class T, Expression X, class Normal>
auto call_normalization(const X& e, const layer_state& layer, std::initializer_list<parameter_request> p,
                        const Normal& normal) {
  using D = dims_t<X>;
  using parameter = node<T, dims<weft::detail::extent_at<D, D::rank - 1>::value>>;
  const auto x = let(e);
  layer_call call(layer, x.erased(), p.begin(), p.size(), dtype_of<T>);
  const auto y = let(normal(x, parameter(call[0]), parameter(call[p.size() - 1])));
  call.result(y.erased());
  return y;
}

/// The extents of a parameter for each channel.
template <Expression X>
shape channels_of() {
  return shape(dims_t<X>::spec[dims_t<X>::rank - 1]);
}

/// The node normal(x, scale, offset) of a layer with these two parameters.
template <class T, Expression X, class Layer, class Normal>
auto call_scale_and_offset(const X& x, const Layer& layer, const Normal& normal) {
  const shape channels = channels_of<X>();
  return call_normalization<T>(
      x, layer.state,
      {{"scale", channels, layer.scale_init, layer.scale}, {"offset", channels, layer.offset_init, layer.offset}},
      normal);
}

}  // namespace detail

/// Layer normalization over the last axis (Ba et al., 2016; tf.keras.layers.LayerNormalization, torch.nn.LayerNorm):
/// (x - mean) / sqrt(variance + epsilon) * scale + offset of [..., width], with the moments of each row. The default
/// epsilon is Keras's; torch's is 1e-5.
template <int In = deduced, Element T = float>
struct layer_norm {
  double epsilon = 1e-3;
  stored_initializer scale_init = init::ones{};
  stored_initializer offset_init = init::zeros{};
  layer_state state{detail::layer_class::layer_norm};
  using parameter_type = typename detail::parameter_type<In != deduced, T, dims<In>>::type;
  mutable parameter_type scale{}, offset{};

  template <Expression X>
  auto operator()(const X& x) const {
    using mistaken = features_mistake<X, T, In>;
    static_assert(correct<mistaken>,
                  "layer_norm: needs a node [..., width] of the layer's elements, float or double, and its width");
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, dims_t<X>>(x);
    } else {
      return detail::call_scale_and_offset<T>(
          x, *this, [this](const auto&... e) { return layer_normalization(e..., {.epsilon = epsilon}); });
    }
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"scale", &scale}, {"offset", &offset}});
  }
};

/// Normalization by the root of the mean of squares over the last axis (Zhang and Sennrich, NeurIPS 2019;
/// torch.nn.RMSNorm): x / sqrt(mean(x^2) + epsilon) * scale of [..., width].
template <int In = deduced, Element T = float>
struct rms_norm {
  double epsilon = 1e-6;
  stored_initializer scale_init = init::ones{};
  layer_state state{detail::layer_class::rms_norm};
  using parameter_type = typename detail::parameter_type<In != deduced, T, dims<In>>::type;
  mutable parameter_type scale{};

  template <Expression X>
  auto operator()(const X& x) const {
    using mistaken = features_mistake<X, T, In>;
    static_assert(correct<mistaken>,
                  "rms_norm: needs a node [..., width] of the layer's elements, float or double, and its width");
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, dims_t<X>>(x);
    } else {
      return detail::call_normalization<T>(x, state, {{"scale", detail::channels_of<X>(), scale_init, scale}},
                                           [this](const auto& e, const auto& by, const auto&) {
                                             return rms_normalization(e, by, {.epsilon = epsilon});
                                           });
    }
  }

  void visit(const std::string& path, layer_visitor& v) const { v.layer(path, state, {{"scale", &scale}}); }
};

/// Group normalization (Wu and He, ECCV 2018; torch.nn.GroupNorm, tf.keras.layers.GroupNormalization):
/// (x - mean) / sqrt(variance + epsilon) * scale + offset of [batch, ..., channels], with the moments of each image and
/// each group of neighbouring channels. `Groups` divides the channels. The default epsilon is Keras's; torch's is 1e-5.
template <int Groups, int In = deduced, Element T = float>
struct group_norm {
  double epsilon = 1e-3;
  stored_initializer scale_init = init::ones{};
  stored_initializer offset_init = init::zeros{};
  layer_state state{detail::layer_class::group_norm};
  using parameter_type = typename detail::parameter_type<In != deduced, T, dims<In>>::type;
  mutable parameter_type scale{}, offset{};

  template <Expression X>
  auto operator()(const X& x) const {
    using mistaken = first_mistake<features_mistake<X, T, In>, groups_do_not_divide_channels<dims_t<X>, Groups>>;
    static_assert(correct<mistaken>,
                  "group_norm: needs a node [batch, ..., channels] of the layer's elements, float or double, and "
                  "groups that divide the channels");
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, dims_t<X>>(x);
    } else {
      return detail::call_scale_and_offset<T>(
          x, *this, [this](const auto&... e) { return group_normalization<Groups>(e..., {.epsilon = epsilon}); });
    }
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"scale", &scale}, {"offset", &offset}});
  }
};

/// Instance normalization (Ulyanov et al., 2016; torch.nn.InstanceNorm2d with affine=True): group normalization of each
/// channel alone. The default epsilon is torch's.
template <int In = deduced, Element T = float>
struct instance_norm {
  double epsilon = 1e-5;
  stored_initializer scale_init = init::ones{};
  stored_initializer offset_init = init::zeros{};
  layer_state state{detail::layer_class::instance_norm};
  using parameter_type = typename detail::parameter_type<In != deduced, T, dims<In>>::type;
  mutable parameter_type scale{}, offset{};

  template <Expression X>
  auto operator()(const X& x) const {
    using D = dims_t<X>;
    using mistaken = first_mistake<features_mistake<X, T, In>, groups_do_not_divide_channels<D, 1>>;
    static_assert(
        correct<mistaken>,
        "instance_norm: needs a node [batch, ..., channels] of the layer's elements, float or double, and its "
        "channels");
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, D>(x);
    } else {
      return detail::call_scale_and_offset<T>(x, *this, [this](const auto&... e) {
        return group_normalization<D::spec[D::rank - 1]>(e..., {.epsilon = epsilon});
      });
    }
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"scale", &scale}, {"offset", &offset}});
  }
};

}  // namespace weft::nn
WEFT_COLD_END
