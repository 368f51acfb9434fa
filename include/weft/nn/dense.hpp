// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/activation.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/products/matmul.hpp>

WEFT_COLD_BEGIN
namespace weft::nn {
namespace detail {

template <class T>
symbol call_dense(const symbol& x, const layer_state& layer, std::initializer_list<parameter_request> p, bool use_bias,
                  const activation_option<T>& activation) {
  gpu::compile_kernels<matmul_op, T>();
  return call_biased(x, layer, p, use_bias, activation, [&](const symbol& weights) { return matmul<T>(x, weights); });
}

/// A layer's variable: typed if the layer's type determines its extents.
template <bool Known, class T, class D>
struct parameter_type {
  using type = parameter;
};
template <class T, class D>
struct parameter_type<true, T, D> {
  using type = variable_node<T, D>;
};

}  // namespace detail

/// An operand's features must equal the number that the layer declares.
template <class X, int In>
struct features_differ : mistake<(In != deduced && X::rank > 0 && X::spec[X::rank - (X::rank > 0)] != In)> {};

/// The number of an operand's features must be known at compile time.
template <class X>
struct features_are_dynamic : mistake<(X::rank > 0 && X::spec[X::rank - (X::rank > 0)] < 0)> {};

/// The operand must have at least two axes; the last one contains the features.
template <class X>
struct operand_has_no_features : mistake<(X::rank < 2)> {};

namespace detail {

/// Returns a layer's operand, in a graph that can compute the extents of the result, `R`.
template <class R, class X>
symbol operand_of(const X& x) {
  const symbol operand = let(x).erased();
  weft::detail::remember_formulas<R>(*operand.builder());
  return operand;
}

/// The last extent of an operand; 1 if the rank is wrong, which is reported elsewhere.
template <class X, std::size_t Rank>
constexpr auto features_of() {
  if constexpr (X::rank == Rank)
    return weft::detail::extent_at<X, Rank - 1>::value;
  else
    return 1;
}

}  // namespace detail

/// The mistake in the operand of a layer whose last axis has `In` features, if there is one.
template <class X, class T, int In>
using features_mistake =
    first_mistake<value_not_in_a_graph<X>, operand_has_no_features<dims_t<X>>, features_are_dynamic<dims_t<X>>,
                  features_differ<dims_t<X>, In>, element_types_differ<value_t<X>, T>, not_floating<T>>;

/// A fully connected layer: activation(x * weights + bias), x [..., in], weights [in, Out], the result [..., Out]
/// (tf.keras.layers.Dense, torch.nn.Linear). `dense<10>` deduces `in` from its first operand; `dense<10, 784>` declares
/// it, so that its variables are typed and operands are checked at compile time. Weights are initialized with
/// glorot_uniform, the bias with 0.
template <int Out, int In = deduced, Element T = float>
struct dense {
  static_assert(Out > 0, "dense: the number of output features must be at least 1");
  bool use_bias = true;
  activation_option<T> activation{};
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::dense};
  mutable typename detail::parameter_type<In != deduced, T, dims<In, Out>>::type weights{};
  mutable typename detail::parameter_type<In != deduced, T, dims<Out>>::type bias{};

  template <class D>
  using kernel_of = dims<detail::features_of<D, D::rank>(), Out>;
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = features_mistake<X, T, In>;

  template <Expression X>
  auto operator()(const X& x) const {
    using D = dims_t<X>;
    using mistaken = operand_mistake<X>;
    static_assert(
        correct<mistaken>,
        "dense: needs a node [..., in] of the layer's element type, float or double, and number of input features: "
        "dense<out, in, T>");
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, D>(x);
    } else {
      return weft::detail::make_node<T, with_extent<D, D::rank - 1, Out>, device_t<X>>(detail::call_dense<T>(
          let(x).erased(), state,
          {{"weights", shape(D::spec[D::rank - 1], Out), weights_init, weights}, {"bias", shape(Out), bias_init, bias}},
          use_bias, activation));
    }
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"weights", &weights}, {"bias", &bias}});
  }
};

template <class T>
struct dense<-1, deduced, T> {
  template <class... Arguments>
  explicit dense(const Arguments&...) {
    static_assert(correct<extents_are_template_arguments<Arguments...>>,
                  "dense: its sizes are template arguments: nn::dense<10> layer{.activation = nn::relu}");
  }
};
template <class First, class... More>
dense(const First&, const More&...) -> dense<-1>;

}  // namespace weft::nn
WEFT_COLD_END
