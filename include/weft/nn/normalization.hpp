// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/batch_norm.hpp>
#include <weft/nn/dense.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/reduce/normalization.hpp>

WEFT_COLD_BEGIN
namespace weft::nn {
namespace detail {

/// Returns the node normal(x, parameter...). The parameters have the last extent of x.
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

/// The extents of a parameter with one element per channel.
template <Expression X>
shape channels_of() {
  return shape(dims_t<X>::spec[dims_t<X>::rank - 1]);
}

/// Returns the node normal(x, scale, offset) of a layer with these two parameters, unless x has a mistake.
template <class T, Expression X, class Layer, class Normal>
auto call_scale_and_offset(const X& x, const Layer& layer, const Normal& normal) {
  if constexpr (!correct<typename Layer::template operand_mistake<X>>) {
    return weft::detail::after_mistake<T, dims_t<X>>(x);
  } else {
    const shape channels = channels_of<X>();
    return call_normalization<T>(
        x, layer.state,
        {{"scale", channels, layer.scale_init, layer.scale}, {"offset", channels, layer.offset_init, layer.offset}},
        normal);
  }
}

}  // namespace detail

/// Layer normalization over the last axis (Ba et al., 2016; tf.keras.layers.LayerNormalization, torch.nn.LayerNorm):
/// (x - mean) / sqrt(variance + epsilon) * scale + offset of [..., width], with the moments of each row. The
/// default epsilon is Keras's; PyTorch's is 1e-5. With `.use_bias = false`, the layer has no offset.
template <int In = deduced, Element T = float>
struct layer_norm {
  double epsilon = 1e-3;
  bool use_bias = true;
  stored_initializer scale_init = init::ones{};
  stored_initializer offset_init = init::zeros{};
  layer_state state{detail::layer_class::layer_norm};
  using parameter_type = typename detail::parameter_type<In != deduced, T, dims<In>>::type;
  mutable parameter_type scale{}, offset{};

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = features_mistake<X, T, In>;

  template <Expression X>
  auto operator()(const X& x) const {
    static_assert(correct<operand_mistake<X>>,
                  "layer_norm: needs a node [..., width] of the layer's element type, float or double, and width");
    if constexpr (correct<operand_mistake<X>>)
      if (!use_bias)
        return detail::call_normalization<T>(x, state, {{"scale", detail::channels_of<X>(), scale_init, scale}},
                                             [this](const auto& e, const auto& by, const auto&) {
                                               return layer_normalization(e, by, zeros_like(by), {.epsilon = epsilon});
                                             });
    return detail::call_scale_and_offset<T>(
        x, *this, [this](const auto&... e) { return layer_normalization(e..., {.epsilon = epsilon}); });
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

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = features_mistake<X, T, In>;

  template <Expression X>
  auto operator()(const X& x) const {
    using mistaken = operand_mistake<X>;
    static_assert(correct<mistaken>,
                  "rms_norm: needs a node [..., width] of the layer's element type, float or double, and width");
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

/// Group normalization (Wu and He, ECCV 2018; torch.nn.GroupNorm, tf.keras.layers.GroupNormalization): (x - mean) /
/// sqrt(variance + epsilon) * scale + offset of [batch, ..., channels], with the moments of each image and each group
/// of adjacent channels. `Groups` must divide the channels. The default epsilon is Keras's; torch's is 1e-5.
template <int Groups, int In = deduced, Element T = float>
struct group_norm {
  double epsilon = 1e-3;
  stored_initializer scale_init = init::ones{};
  stored_initializer offset_init = init::zeros{};
  layer_state state{detail::layer_class::group_norm};
  using parameter_type = typename detail::parameter_type<In != deduced, T, dims<In>>::type;
  mutable parameter_type scale{}, offset{};

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<features_mistake<X, T, In>, groups_do_not_divide_channels<dims_t<X>, Groups>>;

  template <Expression X>
  auto operator()(const X& x) const {
    static_assert(correct<operand_mistake<X>>,
                  "group_norm: needs a node [batch, ..., channels] of the layer's element type, float or double, and "
                  "groups that divide the channels");
    return detail::call_scale_and_offset<T>(
        x, *this, [this](const auto&... e) { return group_normalization<Groups>(e..., {.epsilon = epsilon}); });
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"scale", &scale}, {"offset", &offset}});
  }
};

/// Instance normalization (Ulyanov et al., 2016; torch.nn.InstanceNorm2d with affine=True): group normalization with
/// one channel per group. The default epsilon is torch's.
template <int In = deduced, Element T = float>
struct instance_norm {
  double epsilon = 1e-5;
  stored_initializer scale_init = init::ones{};
  stored_initializer offset_init = init::zeros{};
  layer_state state{detail::layer_class::instance_norm};
  using parameter_type = typename detail::parameter_type<In != deduced, T, dims<In>>::type;
  mutable parameter_type scale{}, offset{};

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<features_mistake<X, T, In>, groups_do_not_divide_channels<dims_t<X>, 1>>;

  template <Expression X>
  auto operator()(const X& x) const {
    static_assert(correct<operand_mistake<X>>,
                  "instance_norm: needs a node [batch, ..., channels] of the layer's element type, float or double, "
                  "and number of channels");
    return detail::call_scale_and_offset<T>(x, *this, [this]<class Y>(const Y& y, const auto&... e) {
      return group_normalization<dims_t<Y>::spec[dims_t<Y>::rank - 1]>(y, e..., {.epsilon = epsilon});
    });
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"scale", &scale}, {"offset", &offset}});
  }
};

}  // namespace weft::nn
WEFT_COLD_END
