// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/batch_normalization.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/fused_operations.hpp>
#include <weft/ops/lowering.hpp>

/// Batch normalization. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

namespace detail {

struct batch_normalization_attributes {
  attribute<double> epsilon;
  attribute<bool> relu;
};

/// Records the gradients of batch normalization; `first` computes the part that flows through the result.
void batch_normalization_gradient(gradient_context&, bool relu, const operation& first);
/// Records the gradients of `batch_normalization_gradient`.
void batch_normalization_second_gradient(gradient_context&, bool relu);

}  // namespace detail

/// Inputs: x, scale, mean, 1 / sqrt(variance + epsilon), shift, the upstream gradient and, if a ReLU follows a
/// residual, the result. Outputs: the gradients of x, scale and offset, and of the residual if there is a ReLU.
template <class T>
struct batch_normalization_gradient_op {
  static constexpr const char* name = "batch_normalization_gradient";
  struct attributes {
    attribute<bool> relu;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::batch_normalization_gradient_kernel<T, accumulator<T>>(p, a.relu);
  }
  static void gradient(gradient_context& g, const attributes& a) {
    detail::batch_normalization_second_gradient(g, a.relu);
  }
  static bool in_place(const node_def&, const value_info*, const value_info&) { return true; }
};

/// Inputs: x, scale, offset and an optional residual. Outputs: the result, the mean and the variance of each channel, 1
/// / sqrt(variance + epsilon), and a shift such that the result is (x - mean) * scale * output 3 + shift.
template <class T>
struct batch_normalization_op {
  static constexpr const char* name = "batch_normalization";
  static constexpr const char* onnx = "batch_normalization()";
  static constexpr primitive_set gradient_uses{primitive::divide};  // in the gradients of the moments
  using attributes = detail::batch_normalization_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::batch_normalization_kernel<T, accumulator<T>>(p, a.epsilon, a.relu);
  }
  static void gradient(gradient_context& g, const attributes& a) {
    detail::batch_normalization_gradient(g, a.relu, operation_of<batch_normalization_gradient_op<T>>);
  }
  static bool in_place(const node_def&, const value_info*, const value_info&) { return true; }
};

namespace detail {

#if WEFT_DEFINITIONS

/// Returns all axes except the last.
inline axis_set all_but_channels(symbol x) {
  return axis_set::of_bits((std::int64_t{1} << (x.extents().rank - 1)) - 1);
}

/// Returns the number of elements in each channel.
inline symbol elements_of_channels(symbol x, dtype type) {
  shape rows = x.extents();
  --rows.rank;
  return sum(fill(*x.builder(), {type, rows}, 1));
}

WEFT_DECL void batch_normalization_gradient(gradient_context& g, bool relu, const operation& first) {
  const symbol x = g.input(0);
  const value_info& channels = g.output(1).info();
  const bool residual = g.node.inputs.size() == 4;
  symbol dx;
  if (g.has_upstream(0)) {
    sequence<symbol> operands{x, g.input(1), g.output(1), g.output(3), g.output(4), g.upstream(0)};
    sequence<value_info> results{x.info(), channels, channels};
    if (residual && relu) {
      operands.push_back(g.output(0));
      results.push_back(x.info());
    }
    dx = record_call(first, operands.data(), operands.size(), static_cast<sequence<value_info>&&>(results), {relu});
    g.set_gradient(1, dx.output(1));
    g.set_gradient(2, dx.output(2));
    if (residual) g.set_gradient(3, relu ? dx.output(3) : g.upstream(0));
  }
  if (g.has_upstream(1) || g.has_upstream(2) || g.has_upstream(3)) {
    // d mean / d x is 1 / n, and d variance / d x is 2 (x - mean) / n.
    symbol of_variance = g.upstream(2);
    if (g.has_upstream(3)) {
      const symbol r = g.output(3);
      of_variance = of_variance - 0.5 * (r * r * r) * g.upstream(3);
    }
    symbol of_moments = g.upstream(1);
    if (g.has_upstream(2) || g.has_upstream(3))
      of_moments = of_moments + 2 * (math::convert(x, channels.type) - g.output(1)) * of_variance;
    of_moments = math::convert(of_moments / elements_of_channels(x, channels.type), x.type());
    dx = g.has_upstream(0) ? dx + of_moments : broadcast_to(of_moments, x.extents());
  }
  if (!dx.is_number()) g.set_gradient(0, dx);
}

WEFT_DECL void batch_normalization_second_gradient(gradient_context& g, bool relu) {
  const auto arguments = arguments_of(g, g.node.inputs.size(), true);
  const dtype stored = arguments[0].type(), type = arguments[1].type();
  const symbol scale = arguments[1], mean = arguments[2], reciprocal = arguments[3], shift = arguments[4];
  const symbol centred = math::convert(arguments[0], type) - mean, normal = centred * reciprocal;
  symbol up = math::convert(arguments[5], type);
  if (relu) {
    const symbol result =
        arguments.size() == 7 ? math::convert(arguments[6], type) : centred * (scale * reciprocal) + shift;
    up = math::select(result > symbol(0), up, symbol(0));
  }
  const axis_set rows = all_but_channels(normal);
  const symbol n = elements_of_channels(normal, type), of_scale = sum(up * normal, rows), of_offset = sum(up, rows);
  const auto result = [&](std::size_t i) {
    if (i == 0) return math::convert((up - of_offset / n - normal * (of_scale / n)) * (scale * reciprocal), stored);
    return i == 1 ? of_scale : i == 2 ? of_offset : math::convert(up, stored);
  };
  give_of_outputs(g, arguments, result);
}

#endif

WEFT_INSTANTIATE(kernel* prepare_declared<batch_normalization_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<batch_normalization_gradient_op<float>>(const prepare_context&));

}  // namespace detail

WEFT_COLD_END

/// The options of batch normalization in training.
struct batch_normalization_options {
  double epsilon = 1e-3;  ///< added to the variance
  bool relu = false;      ///< the result is relu(...), computed in the same pass
};

/// Normalization needs an axis in addition to the channels: `[batch, channels]` or `[batch, height, width, channels]`.
template <class Dims>
struct no_axis_beside_channels : mistake<(Dims::rank < 2)> {};

/// Scale, offset, mean and variance must be `[channels]`, the last extent of x.
template <class Dims, class Parameter>
struct channels_differ : mistake<(Parameter::rank != 1 || Dims::rank == 0 ||
                                  Parameter::spec[0] != Dims::spec[Dims::rank ? Dims::rank - 1 : 0])> {};

/// The residual must have the extents of x.
template <class Dims, class Residual>
struct residual_differs : mistake<!(Dims::spec == Residual::spec)> {};

/// Normalization is defined for float, double, half and bfloat16.
template <class T>
struct normalization_undefined_for : mistake<!is_differentiable<T>> {};

/// The first mistake in the operands of batch normalization, if any. The parameters of half and bfloat16 are float.
template <class X, class... Parameters>
using batch_normalization_mistake =
    first_mistake<no_axis_beside_channels<dims_t<X>>, normalization_undefined_for<value_t<X>>,
                  channels_differ<dims_t<X>, dims_t<Parameters>>...,
                  element_types_differ<accumulator<value_t<X>>, value_t<Parameters>>...>;
template <class X, class Residual>
using residual_mistake =
    first_mistake<residual_differs<dims_t<X>, dims_t<Residual>>, element_types_differ<value_t<X>, value_t<Residual>>>;

/// The result of batch normalization in training, and the moments of each channel.
template <class Result, class Moments>
struct batch_normalized {
  Result result;
  Moments mean, variance;  ///< [channels]; the variance divides by n, not by n - 1
};

namespace detail {

template <class Expr, class Scale, class Offset, class... Residual>
auto normalize_batch(const Expr& e, const Scale& scale, const Offset& offset, const batch_normalization_options& o,
                     const Residual&... residual) {
  using T = value_t<Expr>;
  using S = accumulator<T>;
  using D = dims_t<Expr>;
  using C = dims_t<Scale>;
  if constexpr (correct<batch_normalization_mistake<Expr, Scale, Offset>> &&
                (correct<residual_mistake<Expr, Residual>> && ...)) {
    const auto x = materialize(e);
    const typed_result<S, C> channels{shape(extents_of(x)[D::rank - 1])};
    auto [y, mean, variance, reciprocal, shift] = call_operation<batch_normalization_op<T>>(
        std::tuple{typed_result<T, D>{extents_of(x)}, channels, channels, channels, channels}, {o.epsilon, o.relu}, x,
        materialize(scale), materialize(offset), materialize(residual)...);
    return batch_normalized<decltype(y), decltype(mean)>{y, mean, variance};
  } else {
    auto y = after_mistake<T, D>(e, scale, offset);
    auto moments = after_mistake<S, C>(e, scale, offset);
    return batch_normalized<decltype(y), decltype(moments)>{y, moments, moments};
  }
}

}  // namespace detail

/// Normalizes each channel of `[..., channels]`, such as `[batch, n]` or `[batch, height, width, n]`, by the moments of
/// the batch: (x - mean) / sqrt(variance + epsilon) * scale + offset, with scale and offset `[channels]`
/// (tf.nn.fused_batch_norm with is_training, torch.nn.functional.batch_norm):
///
///     auto [y, mean, variance] = batch_normalization_training(x, scale, offset, {.epsilon = 1e-5, .relu = true});
///
/// The forward pass reads x twice; the gradient reads x and the upstream gradient twice. The moments are results, for
/// use in moving averages, and have gradients. The variance is biased, as in tf.nn.moments; PyTorch and TensorFlow
/// multiply it by n / (n - 1) in their moving averages. The variance of a channel with one element is 0; the moments of
/// an empty channel are NaN. The parameters and moments of half and bfloat16 values are float.
template <Expression X, Expression Scale, Expression Offset>
[[nodiscard]] auto batch_normalization_training(const X& x, const Scale& scale, const Offset& offset,
                                                const batch_normalization_options& options = {}) {
  static_assert(correct<batch_normalization_mistake<X, Scale, Offset>>,
                "batch_normalization_training: needs x of [..., channels], and scale and offset of [channels]");
  return detail::normalize_batch(x, scale, offset, options);
}
/// Batch normalization with a residual of the extents of x, which is added before the ReLU, as in a residual network.
template <Expression X, Expression Scale, Expression Offset, Expression Residual>
[[nodiscard]] auto batch_normalization_training(const X& x, const Scale& scale, const Offset& offset,
                                                const Residual& residual,
                                                const batch_normalization_options& options = {}) {
  static_assert(correct<batch_normalization_mistake<X, Scale, Offset>>,
                "batch_normalization_training: needs x of [..., channels], and scale and offset of [channels]");
  static_assert(correct<residual_mistake<X, Residual>>,
                "batch_normalization_training: the residual must have the extents and element type of x");
  return detail::normalize_batch(x, scale, offset, options, residual);
}

/// The options of normalizations with given moments, and of layer and group normalization.
struct normalization_options {
  double epsilon = 1e-3;  ///< added to the variance
};

/// Normalizes `[..., channels]` by given moments, such as moving averages, each `[channels]`
/// (tf.nn.batch_normalization, torch.nn.functional.batch_norm in inference): (x - mean) * (scale / sqrt(variance +
/// epsilon)) + offset. The result is an expression and fuses: `relu(batch_normalization(x, mean, variance, scale,
/// offset) + residual)`.
template <Expression X, Expression Mean, Expression Variance, Expression Scale, Expression Offset>
[[nodiscard]] auto batch_normalization(const X& x, const Mean& mean, const Variance& variance, const Scale& scale,
                                       const Offset& offset, const normalization_options& options = {}) {
  using mistake = batch_normalization_mistake<X, Mean, Variance, Scale, Offset>;
  static_assert(correct<mistake>,
                "batch_normalization: needs x of [..., channels], and moments, scale and offset of [channels]");
  using T = value_t<X>;
  using S = accumulator<T>;
  if constexpr (!correct<mistake>)
    return detail::after_mistake<T, dims_t<X>>(x, mean, variance, scale, offset);
  else if constexpr (is_storage_type<T>)
    return cast<T>(batch_normalization(cast<S>(x), mean, variance, scale, offset, options));
  else
    return (x - mean) * (scale * rsqrt(variance + static_cast<S>(options.epsilon))) + offset;
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/batch_normalization.hpp>
#endif
