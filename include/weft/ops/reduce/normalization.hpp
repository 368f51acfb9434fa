// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/layer_normalization.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/fused_operations.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/reduce/batch_normalization.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Moments, and the normalization of batches, layers and groups. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

namespace detail {

/// Records the gradients of layer normalization, or of RMS normalization unless centred; `first` computes the part that
/// flows through the result.
void layer_normalization_gradient(gradient_context&, bool centred, const operation& first);
/// Records the gradients of `layer_normalization_gradient`.
void layer_normalization_second_gradient(gradient_context&, bool centred);

}  // namespace detail

/// Stands for these operations in gpu::compile_kernels.
template <class T>
struct layer_normalizations {};

/// Inputs: x, scale, the upstream gradient, 1 / sqrt(variance + epsilon) and, if centred, the mean. Outputs: the
/// gradients of x, scale and, if centred, offset.
template <class T, bool Centred>
struct layer_normalization_gradient_op {
  static constexpr const char* name = Centred ? "layer_normalization_gradient" : "rms_normalization_gradient";

  static kernel* prepare(const prepare_context& p) {
    return new detail::layer_normalization_gradient_kernel<T, Centred>(p);
  }
  static void gradient(gradient_context& g) { detail::layer_normalization_second_gradient(g, Centred); }
  static bool in_place(const node_def&, const value_info* inputs, const value_info&) {
    return inputs[1].extents.rank < inputs[0].extents.rank;
  }
};

/// Inputs: x, scale and, if centred, offset. Outputs: the result and, for each row, 1 / sqrt(variance + epsilon) and,
/// if centred, the mean.
template <class T, bool Centred>
struct layer_normalization_op {
  static constexpr const char* name = Centred ? "layer_normalization" : "rms_normalization";
  static constexpr const char* onnx = Centred ? "layer_normalization()" : "rms_normalization()";
  struct attributes {
    attribute<double> epsilon;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::layer_normalization_kernel<T, Centred>(p, a.epsilon);
  }
  static void gradient(gradient_context& g, const attributes&) {
    detail::layer_normalization_gradient(g, Centred, operation_of<layer_normalization_gradient_op<T, Centred>>);
  }
  static bool in_place(const node_def&, const value_info* inputs, const value_info&) {
    return inputs[1].extents.rank < inputs[0].extents.rank;
  }
};

namespace detail {

#if WEFT_DEFINITIONS

/// Returns the axes of a row, which are the last axes.
inline axis_set axes_of_rows(symbol x, symbol scale) {
  const std::size_t rank = x.extents().rank, first = rank - scale.extents().rank;
  return axis_set::of_bits((std::int64_t{1} << rank) - (std::int64_t{1} << first));
}
/// Returns all other axes.
inline axis_set axes_between_rows(symbol x, symbol scale) {
  return axis_set::of_bits((std::int64_t{1} << (x.extents().rank - scale.extents().rank)) - 1);
}

WEFT_DECL void layer_normalization_gradient(gradient_context& g, bool centred, const operation& first) {
  const symbol x = g.input(0), scale = g.input(1);
  symbol dx;
  if (g.has_upstream(0)) {
    sequence<symbol> operands{x, scale, g.upstream(0), g.output(1)};
    sequence<value_info> results{x.info(), scale.info()};
    if (centred) {
      operands.push_back(g.output(2));
      results.push_back(scale.info());
    }
    dx = record_call(first, operands.data(), operands.size(), static_cast<sequence<value_info>&&>(results), {});
    g.set_gradient(1, dx.output(1));
    if (centred) g.set_gradient(2, dx.output(2));
  }
  const auto add = [&](symbol more) { dx = dx.is_number() ? more : dx + more; };
  const axis_set row = axes_of_rows(x, scale);
  const bool of_mean = centred && g.has_upstream(2);
  if (!g.has_upstream(1) && !of_mean) {
    if (!dx.is_number()) g.set_gradient(0, dx);
    return;
  }
  const symbol n = sum(fill(*x.builder(), scale.info(), 1));
  // d mean / d x is 1 / n, and d reciprocal / d x is -reciprocal^3 (x - mean) / n.
  if (g.has_upstream(1)) {
    const symbol r = g.output(1), factor = expand_dims(r * r * r * g.upstream(1) / n, row);
    add(-(centred ? x - expand_dims(g.output(2), row) : x) * factor);
  }
  if (of_mean) add(broadcast_to(expand_dims(g.upstream(2) / n, row), x.extents()));
  g.set_gradient(0, dx);
}

WEFT_DECL void layer_normalization_second_gradient(gradient_context& g, bool centred) {
  const auto arguments = arguments_of(g, g.node.inputs.size(), true);
  const symbol x = arguments[0], scale = arguments[1], up = arguments[2];
  const axis_set row = axes_of_rows(x, scale), between = axes_between_rows(x, scale);
  const symbol reciprocal = expand_dims(arguments[3], row);
  const symbol normal = (centred ? x - expand_dims(arguments[4], row) : x) * reciprocal, scaled = up * scale;
  const symbol n = sum(fill(*x.builder(), scale.info(), 1));
  const auto result = [&](std::size_t i) {
    if (i == 1) return sum(up * normal, between);
    if (i == 2) return sum(up, between);
    const symbol sloped = scaled - normal * (sum(scaled * normal, row, true) / n);
    return (centred ? sloped - sum(scaled, row, true) / n : sloped) * reciprocal;
  };
  give_of_outputs(g, arguments, result);
}

#endif

WEFT_INSTANTIATE(kernel* prepare_declared<layer_normalization_op<float, true>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<layer_normalization_op<float, false>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<layer_normalization_gradient_op<float, true>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<layer_normalization_gradient_op<float, false>>(const prepare_context&));

}  // namespace detail

WEFT_COLD_END

/// The mean and the variance over some axes.
template <class Mean, class Variance>
struct mean_and_variance {
  Mean mean;
  Variance variance;  ///< divides by n, not by n - 1
};

/// Returns mean and variance over the given axes, or over all axes (tf.nn.moments): `auto [mean, variance] = moments<0,
/// 1, 2>(x)`. With `keep_dims` among the axes, reduced axes keep extent 1. The variance is the mean of (x - mean)^2, so
/// it is accurate for values far from 0. Elements are float or double.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto moments(const Expr& e) {
  using D = dims_t<Expr>;
  using mistake = mean_mistake<Expr, Axes...>;
  static_assert(correct<mistake>,
                "moments: needs axes of the operand and elements of float or double: moments<0, 1>(cast<float>(x))");
  if constexpr (!correct<mistake>) {
    const auto x = detail::same_after_mistake(e);
    return mean_and_variance<decltype(x), decltype(x)>{x, x};
  } else {
    const auto x = materialize(e);
    const auto average = mean<Axes...>(x);
    const auto variance = [&] {
      if constexpr (detail::keeps_dims<Axes...> || sizeof...(Axes) == 0)
        return mean<Axes...>(square(x - average));
      else
        return mean<Axes...>(square(x - detail::with_reduced_axes<D, detail::reduced_axes<D, Axes...>()>(average)));
    }();
    return mean_and_variance<std::remove_const_t<decltype(average)>, std::remove_const_t<decltype(variance)>>{average,
                                                                                                              variance};
  }
}

namespace detail {

constexpr bool ends_with(const shape& x, const shape& last) {
  shape end = x;
  for (std::size_t i = 0; i < last.rank; ++i) end[x.rank - last.rank + i] = last[i];
  return end == x;
}

template <int Groups>
constexpr bool divides_channels(const shape& x) {
  return Groups > 0 && x.rank >= 2 && x[x.rank - 1] > 0 && x[x.rank - 1] % Groups == 0;
}

}  // namespace detail

/// A scale or an offset must have the last `Axes` extents of x.
template <class Dims, class Parameter, int Axes>
struct last_axes_differ : mistake<(Axes<1 || Axes != static_cast<int>(Parameter::rank) || Parameter::rank> Dims::rank ||
                                   !detail::ends_with(Dims::spec, Parameter::spec))> {};

/// The groups must divide the channels, the last of at least two axes; the number of channels must be static.
template <class Dims, int Groups>
struct groups_do_not_divide_channels : mistake<!detail::divides_channels<Groups>(Dims::spec)> {};

template <class X, int Axes, class... Parameters>
using layer_normalization_mistake =
    first_mistake<not_floating<value_t<X>>, last_axes_differ<dims_t<X>, dims_t<Parameters>, Axes>...,
                  element_types_differ<value_t<X>, value_t<Parameters>>...>;

namespace detail {

/// The extents without the last `Axes`.
template <class Dims, int Axes>
using dims_before = without_axes<Dims, ((std::uint32_t{1} << Dims::rank) - (std::uint32_t{1} << (Dims::rank - Axes)))>;

template <int Axes, class Expr, class... Parameters>
auto normalize_rows(const Expr& e, double epsilon, const Parameters&... parameters) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using R = dims_before<D, Axes>;
  constexpr bool centred = sizeof...(Parameters) == 2;
  using op = layer_normalization_op<T, centred>;
  if constexpr ((Expr::symbolic || ... || Parameters::symbolic)) gpu::compile_kernels<layer_normalizations, T>();
  const auto x = materialize(e);
  const shape& extents = extents_of(x);
  shape rows = extents;
  rows.rank -= Axes;
  const typed_result<T, R> each{rows};
  if constexpr (centred)
    return std::get<0>(call_operation<op>(std::tuple{typed_result<T, D>{extents}, each, each}, {epsilon}, x,
                                          materialize(parameters)...));
  else
    return std::get<0>(
        call_operation<op>(std::tuple{typed_result<T, D>{extents}, each}, {epsilon}, x, materialize(parameters)...));
}

/// `[batch, ..., channels]` with channels in groups: `[batch, ..., groups, channels / groups]`.
template <class Dims, int Groups>
using grouped_dims = with_extent<with_extent<select<Dims, Dims::rank + 1, pick_kept<0>>, Dims::rank - 1, Groups>,
                                 Dims::rank, static_cast<int>(Dims::spec[Dims::rank - 1]) / Groups>;

template <int Groups, class Expr, std::size_t... Index>
auto normalize_groups(const Expr& e, const auto& scale, const auto& offset, double epsilon, indices<Index...>) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr int rank = static_cast<int>(D::rank), channels = static_cast<int>(D::spec[D::rank - 1]);
  using Grouped = grouped_dims<D, Groups>;
  using parameters = dims<Groups, channels / Groups>;
  const auto x = materialize(e);
  shape extents = extents_of(x);
  extents[D::rank - 1] = Groups;
  extents.push_back(channels / Groups);
  const auto grouped = under_extents<Grouped>(x, extents);
  // Over the positions, and the channels of a group.
  const auto [average, variance] = moments<(1 + static_cast<int>(Index))..., rank, keep_dims>(grouped);
  const auto y = materialize((grouped - average) * rsqrt(variance + static_cast<T>(epsilon)) *
                                 under_extents<parameters>(materialize(scale), parameters::spec) +
                             under_extents<parameters>(materialize(offset), parameters::spec));
  return under_extents<D>(y, extents_of(x));
}

}  // namespace detail

/// Normalizes each element of a batch over its last `Axes` axes; scale and offset have the extents of these axes
/// (torch.nn.functional.layer_norm, Keras's LayerNormalization): (x - mean) / sqrt(variance + epsilon) * scale +
/// offset. `layer_normalization(x, scale, offset)` of `[batch, words, width]` takes parameters `[width]`, and
/// `layer_normalization<3>` of `[batch, h, w, c]` takes parameters `[h, w, c]`.
template <int Axes = 1, Expression X, Expression Scale, Expression Offset>
[[nodiscard]] auto layer_normalization(const X& x, const Scale& scale, const Offset& offset,
                                       const normalization_options& options = {}) {
  using mistake = layer_normalization_mistake<X, Axes, Scale, Offset>;
  static_assert(correct<mistake>,
                "layer_normalization: needs float or double, and scale and offset of the last extents of x");
  if constexpr (!correct<mistake>)
    return detail::after_mistake<value_t<X>, dims_t<X>>(x, scale, offset);
  else
    return detail::normalize_rows<Axes>(x, options.epsilon, scale, offset);
}

/// Divides each element of a batch by its root mean square over its last `Axes` axes; scale has the extents of these
/// axes (torch.nn.functional.rms_norm): x / sqrt(mean(x^2) + epsilon) * scale. The default epsilon is 1e-6.
template <int Axes = 1, Expression X, Expression Scale>
[[nodiscard]] auto rms_normalization(const X& x, const Scale& scale,
                                     const normalization_options& options = {.epsilon = 1e-6}) {
  using mistake = layer_normalization_mistake<X, Axes, Scale>;
  static_assert(correct<mistake>, "rms_normalization: needs float or double, and a scale of the last extents of x");
  if constexpr (!correct<mistake>)
    return detail::after_mistake<value_t<X>, dims_t<X>>(x, scale);
  else
    return detail::normalize_rows<Axes>(x, options.epsilon, scale);
}

/// Normalizes each element of a batch `[batch, ..., channels]` over its positions and groups of adjacent channels, with
/// scale and offset `[channels]` (torch.nn.functional.group_norm, whose channels come first):
/// `group_normalization<8>(x, scale, offset)`. One group equals layer normalization, and one group for each channel
/// equals instance normalization, of images.
template <int Groups, Expression X, Expression Scale, Expression Offset>
[[nodiscard]] auto group_normalization(const X& x, const Scale& scale, const Offset& offset,
                                       const normalization_options& options = {}) {
  using mistake =
      first_mistake<groups_do_not_divide_channels<dims_t<X>, Groups>, layer_normalization_mistake<X, 1, Scale, Offset>>;
  static_assert(correct<mistake>,
                "group_normalization: needs float or double, groups that divide the channels, and scale and offset of "
                "[channels]");
  if constexpr (!correct<mistake>)
    return detail::after_mistake<value_t<X>, dims_t<X>>(x, scale, offset);
  else
    return detail::normalize_groups<Groups>(x, scale, offset, options.epsilon,
                                            typename detail::make_indices<dims_t<X>::rank - 2>::type());
}

/// Normalizes each channel of each element of a batch `[batch, ..., channels]` over its positions, with scale and
/// offset
/// `[channels]` (torch.nn.functional.instance_norm, whose channels come first). The number of channels is static.
template <Expression X, Expression Scale, Expression Offset>
[[nodiscard]] auto instance_normalization(const X& x, const Scale& scale, const Offset& offset,
                                          const normalization_options& options = {}) {
  using mistake = extent_is_not_an_int<dims_t<X>, -1>;
  static_assert(correct<mistake>,
                "instance_normalization: needs x [batch, ..., channels], with a number of channels "
                "known at compile time");
  if constexpr (correct<mistake>)
    return group_normalization<static_extent<X, -1>()>(x, scale, offset, options);
  else
    return detail::after_mistake<value_t<X>, dims_t<X>>(x, scale, offset);
}

WEFT_OTHER_CALLS(layer_normalization);  // takes x, scale and offset: layer_normalization(x, scale, offset)
WEFT_OTHER_CALLS(rms_normalization);    // takes x and scale: rms_normalization(x, scale)
WEFT_OTHER_CALLS(group_normalization);  // takes x, scale and offset: group_normalization<8>(x, scale, offset)

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/normalization.hpp>
#endif
