// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/activation.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/elementwise/activations.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/reduce/softmax.hpp>

/// Activations that have a parameter or are not elementwise, and the layer prelu. Not part of `<weft/nn.hpp>`.
namespace weft::nn {

/// The activation Formula::apply(x, parameter), a formula of two operands as in ops/elementwise/formulas.hpp. A call
/// with a number returns the activation with that parameter: `dense<100> hidden{.activation = nn::leaky_relu(0.1)}`.
template <class Formula>
struct parametric_activation {
  double parameter;

  template <Expression X>
  auto operator()(const X& x) const {
    return weft::detail::function<Formula>(x, static_cast<value_t<X>>(parameter));
  }
  constexpr parametric_activation operator()(double other) const { return {other}; }

  /// Records Formula::apply(x + bias, parameter) as one fused operation. `bias` may be a plain number.
  template <class T>
  static symbol record_with(const symbol& x, const symbol& bias, T parameter) {
    using leaf = node<T>;
    if constexpr (!std::is_floating_point_v<T>)
      return x;  // a mistake that the layer reports
    else if (bias.is_number())
      return detail::record_untyped(weft::detail::function<Formula>(leaf(x), parameter), x.extents());
    else
      return detail::record_untyped(weft::detail::function<Formula>(leaf(x) + leaf(bias), parameter), x.extents());
  }
};

/// The activation softmax or log_softmax, along the last axis.
template <bool Log>
struct softmax_activation {
  static constexpr int parameter = 0;

  template <Expression X>
  auto operator()(const X& x) const {
    if constexpr (Log)
      return weft::log_softmax(x);
    else
      return weft::softmax(x);
  }
  template <class T>
  static symbol record_with(const symbol& x, const symbol& bias, T) {
    if constexpr (!std::is_floating_point_v<T>) {
      return x;  // a mistake that the layer reports
    } else {
      gpu::compile_kernels<softmax_op, T>();
      const symbol logits = detail::record_activation<void, T>(x, bias);
      if constexpr (Log)
        return record<log_softmax_op<T>>({logits}, logits.info());
      else
        return record<softmax_op<T>>({logits}, logits.info());
    }
  }
};

namespace detail {

// The parameter of an activation is a number, which has no gradient.
#define WEFT_PARAMETRIC(function, form, is_cheap, value, slope)          \
  struct function##_of {                                                 \
    static constexpr const char* name = #function;                       \
    static constexpr const char* onnx = form;                            \
    static constexpr bool cheap = is_cheap, floating_only = true;        \
    template <class V>                                                   \
    WEFT_HOST_DEVICE static constexpr V apply(V x, V p) {                \
      return value;                                                      \
    }                                                                    \
    template <class V>                                                   \
    WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V x, V p, V y) { \
      static_cast<void>(x), static_cast<void>(y);                        \
      return g * (slope);                                                \
    }                                                                    \
    template <class V>                                                   \
    WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V, V, V) {       \
      return g * V(0);                                                   \
    }                                                                    \
  };
using math::select;
WEFT_PARAMETRIC(leaky_relu, "Where(Less(0, a), a, Mul(b, a))", true, select(x > V(0), x, p* x),
                select(x > V(0), V(1), p))
WEFT_PARAMETRIC(elu, "Where(Less(0, a), a, Mul(b, Sub(Exp(Min(a, 0)), 1)))", false,
                select(x > V(0), x, p* math::expm1(math::minimum(x, V(0)))), select(x > V(0), V(1), y + p))
WEFT_PARAMETRIC(celu, "Where(Less(0, a), a, Mul(b, Sub(Exp(Div(Min(a, 0), b)), 1)))", false,
                select(x > V(0), x, p* math::expm1(math::minimum(x, V(0)) / p)), select(x > V(0), V(1), y / p + V(1)))
WEFT_PARAMETRIC(hard_tanh, "Max(Min(a, b), Neg(b))", true, select(x <= -p, -p, select(x >= p, p, x)),
                select(x <= -p, V(0), select(x >= p, V(0), V(1))))
WEFT_PARAMETRIC(hard_shrink, "Where(LessOrEqual(Abs(a), b), 0, a)", true, select(math::abs(x) <= p, V(0), x),
                select(math::abs(x) <= p, V(0), V(1)))
WEFT_PARAMETRIC(soft_shrink, "Sub(a, Min(Max(a, Neg(b)), b))", true, x - math::minimum(math::maximum(x, -p), p),
                select(math::abs(x) <= p, V(0), V(1)))
#undef WEFT_PARAMETRIC

}  // namespace detail

template <>
struct with_parameter<formula::elu> {
  static constexpr parametric_activation<detail::elu_of> with(double alpha) { return {alpha}; }
};

/// The activation x if x > 0, else 0.2 x, as tf.nn.leaky_relu; `nn::leaky_relu(0.01)` has PyTorch's slope.
inline constexpr parametric_activation<detail::leaky_relu_of> leaky_relu{0.2};
/// The activation x if x > 0, else e^x - 1; `nn::celu(alpha)` is x if x > 0, else alpha (e^(x / alpha) - 1).
inline constexpr parametric_activation<detail::celu_of> celu{1};
/// The activation min(max(x, -1), 1); `nn::hard_tanh(limit)` clips to [-limit, limit].
inline constexpr parametric_activation<detail::hard_tanh_of> hard_tanh{1};
/// The activation 0 if |x| <= 0.5, else x; `nn::hard_shrink(limit)` has another limit.
inline constexpr parametric_activation<detail::hard_shrink_of> hard_shrink{0.5};
/// The activation that moves x towards 0 by 0.5; `nn::soft_shrink(distance)` moves it by another distance.
inline constexpr parametric_activation<detail::soft_shrink_of> soft_shrink{0.5};
/// The activation x tanh(softplus(x)): weft::mish.
inline constexpr activation<formula::mish> mish{};
/// The activation log(sigmoid(x)): weft::log_sigmoid.
inline constexpr activation<formula::log_sigmoid> log_sigmoid{};
/// The softmax of the last axis: `dense<10> classes{.activation = nn::softmax}`. A loss of logits, such as
/// softmax_cross_entropy, is more accurate than a loss of these probabilities.
inline constexpr softmax_activation<false> softmax{};
/// The logarithm of the softmax of the last axis, without overflow.
inline constexpr softmax_activation<true> log_softmax{};

/// A prelu has one slope, or one for each element of the operand's last axis.
template <class X, int Slopes>
struct slopes_differ_from_channels
    : mistake<(Slopes < 1 || X::rank == 0 || (Slopes > 1 && X::spec[X::rank - (X::rank > 0)] != Slopes))> {};

/// Returns x if x > 0, else slope * x, with trained slopes: one, or one for each channel, the last axis (He et al.,
/// ICCV 2015; torch.nn.PReLU, tf.keras.layers.PReLU with shared axes). Slopes start at 0.25.
template <int Slopes = 1, Element T = float>
struct prelu {
  stored_initializer slope_init = init::constant{0.25};
  layer_state state{detail::layer_class::prelu};
  mutable variable_node<T, dims<Slopes>> slopes{};

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<value_not_in_a_graph<X>, slopes_differ_from_channels<dims_t<X>, Slopes>,
                                        element_types_differ<value_t<X>, T>, not_floating<T>>;

  template <Expression X>
  auto operator()(const X& e) const {
    using mistaken = operand_mistake<X>;
    static_assert(correct<mistaken>,
                  "prelu: needs a node of the layer's element type, float or double, whose last axis has one element "
                  "for each slope: prelu<channels, T>");
    if constexpr (!correct<mistaken>) {
      return weft::detail::after_mistake<T, dims_t<X>>(e);
    } else {
      const auto x = let(e);
      const parameter_request request{"slopes", shape(Slopes), slope_init, slopes};
      layer_call call(state, x.erased(), &request, 1, dtype_of<T>);
      const auto y = let(weft::leaky_relu(x, slopes));
      call.result(y.erased());
      return y;
    }
  }

  void visit(const std::string& path, layer_visitor& v) const { v.layer(path, state, {{"slopes", &slopes}}); }
};

}  // namespace weft::nn
