// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/pooling.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/images/window.hpp>
#include <weft/ops/lowering.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// Makes average pools count padding as zeros (PyTorch's count_include_pad, its default).
inline constexpr bool count_padding = true;

namespace detail {

/// The attributes of a pool. Dilations are 1. The windows of an adaptive pool (ops/images/adaptive_pooling.hpp) are 0.
struct pool_attributes {
  window_attributes windows;
  attribute<std::int64_t> window_height, window_width;
  attribute<bool> counts_padding;
};

constexpr const char* name_of(pool_kind k) {
  constexpr const char* names[] = {"max_pool2d", "max_pool2d_gradient", "max_pool2d_choice", "avg_pool2d",
                                   "avg_pool2d_gradient"};
  return names[static_cast<int>(k)];
}
constexpr bool is_gradient(pool_kind k) { return k == pool_kind::max_gradient || k == pool_kind::average_gradient; }

/// Returns the extents of a call.
inline convolution_shape pooling_of(const prepare_context& p, const pool_attributes& a, pool_kind kind) {
  const shape& images = (kind == pool_kind::average_gradient ? p.outputs : p.inputs)[0].extents;
  const shape& result =
      is_gradient(kind) ? p.inputs[kind == pool_kind::max_gradient ? 2 : 0].extents : p.outputs[0].extents;
  convolution_shape s = convolution_of(a.windows, images, a.window_height, a.window_width, result);
  s.counts_padding = a.counts_padding;
  const bool fits = s.is_adaptive() ? s.height > 0 && s.width > 0 : windows_fit(s);
  if (result[0] != images[0] || result[3] != images[3] || !fits)
    throw error(error_code::invalid_argument, p.node.op->name,
                {"images of extents ", to_string(images), " do not fit a result of ", to_string(result),
                 ": images must be [batch, height, width, channels], and no window larger than the padded image"});
  return s;
}

}  // namespace detail

/// A pool or one of its gradients:
///   - max and average: the values of the windows of images;
///   - max_gradient: the gradient of the images, from the images, the pool's value and its gradient (tf.raw_ops.
///     MaxPoolGrad). Only GPU libraries need the value; the CPU searches the maxima again;
///   - max_choice: the values at the positions of the images' maxima, from images and values (tf.raw_ops.
///     MaxPoolGradGrad);
///   - average_gradient: the gradient of the images, from the gradient of the pool's value (tf.raw_ops.AvgPoolGrad).
template <class T, pool_kind Kind>
struct pool_op {
  static constexpr const char* name = detail::name_of(Kind);
  static constexpr const char* onnx = Kind == pool_kind::max       ? "max_pool()"
                                      : Kind == pool_kind::average ? "average_pool()"
                                                                   : nullptr;
  static constexpr bool takes_gradients = detail::is_gradient(Kind);
  using attributes = detail::pool_attributes;

  static kernel* prepare_fused(const prepare_context& p, const attributes& a, const product_fusion& f) {
    const std::uint32_t second = p.input_slots[p.node.inputs.size() - 1];
    return new device::pooling_kernel<T, Kind>(detail::pooling_of(p, a, Kind), p.input_slots[0], second, f.result,
                                               f.epilogue_on_cpu());
  }
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return prepare_fused(p, a, {p.output_slots[0]});
  }
  static constexpr bool yields_zeros(const node_def&) { return Kind == pool_kind::max_gradient; }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return Kind == pool_kind::max_gradient && operand == 1 ? operand_use::extents : operand_use::read;
  }
  static void gradient(gradient_context& g, const attributes& a) {
    using enum pool_kind;
    const symbol x = g.input(0), up = g.upstream();
    if constexpr (Kind == max)
      g.set_gradient(0, record<pool_op<T, max_gradient>>({x, g.output(), up}, x.info(), a));
    else if constexpr (Kind == average)
      g.set_gradient(0, record<pool_op<T, average_gradient>>({up}, x.info(), a));
    else if constexpr (Kind == average_gradient)
      g.set_gradient(0, record<pool_op<T, average>>({up}, x.info(), a));
    // A small change of the images does not move the maxima, so they have no second gradient.
    else if (const symbol given = g.input(g.node.inputs.size() - 1); Kind == max_gradient && g.needs_gradient(2))
      g.set_gradient(2, record<pool_op<T, max_choice>>({x, up}, given.info(), a));
    else if (Kind == max_choice && g.needs_gradient(1))
      g.set_gradient(1, record<pool_op<T, max_gradient>>({x, record<pool_op<T, max>>({x}, g.output().info(), a), up},
                                                         x.info(), a));
  }
};
/// The largest element of each window.
template <class T>
using max_pool_op = pool_op<T, pool_kind::max>;
/// The mean of each window.
template <class T>
using average_pool_op = pool_op<T, pool_kind::average>;

namespace detail {

#define WEFT_POOL(kind)                                                                                                \
  WEFT_INSTANTIATE(kernel* prepare_declared<pool_op<float, pool_kind::kind>>(const prepare_context&));                 \
  WEFT_INSTANTIATE(                                                                                                    \
      kernel* prepare_fused_declared<pool_op<float, pool_kind::kind>>(const prepare_context&, const product_fusion&)); \
  WEFT_INSTANTIATE(void gradient_of_declared<pool_op<float, pool_kind::kind>>(gradient_context&));
WEFT_POOL(max)
WEFT_POOL(max_gradient)
WEFT_POOL(max_choice)
WEFT_POOL(average)
WEFT_POOL(average_gradient)
#undef WEFT_POOL

constexpr bool window_fits(const shape& images, size2d window, const window_options& o) {
  return images.rank != 4 || !sensible(o) || has_windows(images, window.height, window.width, o);
}

// A window entirely in the padding would contain no elements.
constexpr bool pool_is_sensible(size2d window, const window_options& o) {
  return sensible(o) && window.height > 0 && window.width > 0 && o.pad.top < window.height &&
         o.pad.bottom < window.height && o.pad.left < window.width && o.pad.right < window.width;
}

}  // namespace detail

/// The window of a pool is larger than the padded image.
template <class Images, size2d Window, size2d Stride, padding Padding>
struct window_is_larger_than_image : mistake<!detail::window_fits(Images::spec, Window, {Stride, Padding})> {};

/// Windows and strides must be at least 1; padding must be at least 0 and less than the window.
template <size2d Window, size2d Stride, padding Padding>
struct pool_options_out_of_range : mistake<!detail::pool_is_sensible(Window, {Stride, Padding})> {};

/// Pools are defined for float, double, half and bfloat16.
template <class T>
struct pool_undefined_for : mistake<!is_differentiable<T>> {};

/// The first mistake in a pool, if any.
template <class Expr, size2d Window, size2d Stride, padding Padding>
using pool_mistake = first_mistake<pool_undefined_for<value_t<Expr>>, images_are_not_of_rank_4<dims_t<Expr>>,
                                   pool_options_out_of_range<Window, Stride, Padding>,
                                   window_is_larger_than_image<dims_t<Expr>, Window, Stride, Padding>>;

namespace detail {

template <class Images, size2d Window, size2d Stride, padding Padding>
using pool_result = windowed<Images, typename numbers_of<window_options{Stride, Padding}>::type, Window.height,
                             Window.width, extent_at<Images, 3>::value>;

template <pool_kind Kind, class D, class X>
auto call_pool(const X& x, const shape& result, const pool_attributes& a) {
  if constexpr (X::symbolic) gpu::compile_kernels<max_pool_op, value_t<X>>();
  return call_operation<pool_op<value_t<X>, Kind>, value_t<X>, D>(result, a, x);
}

template <pool_kind Kind, size2d Window, size2d Stride, padding Padding, bool CountPadding = false, class X>
auto pool(const X& x) {
  const shape from = extents_of(x);
  const window_call call = call_windows(from, Window.height, Window.width, from[3], {Stride, Padding});
  return call_pool<Kind, pool_result<dims_t<X>, Window, Stride, Padding>>(
      x, call.result, {call.attributes, Window.height, Window.width, CountPadding});
}

}  // namespace detail

/// Returns the largest element of each window of images `[batch, height, width, channels]`, for each channel
/// (tf.nn.max_pool2d): `max_pool2d<2>(x)` halves height and width. By default, windows do not overlap. The gradient
/// goes to the first maximum of a window, row by row, as in PyTorch and TensorFlow. If a window contains NaN, its value
/// is NaN, as for `max`, and the gradient goes to the window's last NaN, as in PyTorch. TensorFlow's CPU kernel skips
/// NaNs, which hides errors in training.
template <size2d Window, size2d Stride = Window, padding Padding = padding::valid, Expression Expr>
[[nodiscard]] auto max_pool2d(const Expr& images) {
  using mistaken = pool_mistake<Expr, Window, Stride, Padding>;
  static_assert(correct<mistaken>,
                "max_pool2d: needs floating-point images that are not smaller than the window: cast<float>(x)");
  if constexpr (correct<mistaken>)
    return detail::pool<pool_kind::max, Window, Stride, Padding>(materialize(images));
  else
    return detail::same_after_mistake(images);
}

/// Returns the mean of each window of images `[batch, height, width, channels]`, for each channel (tf.nn.avg_pool2d).
/// By default, windows at the edges average only the elements inside the image, as in TensorFlow. `avg_pool2d<3, 1,
/// padding::of(1), count_padding>(x)` divides by the whole window, like PyTorch's default. Elements of half and
/// bfloat16 are summed in float and rounded once; so are the gradients of all pools.
template <size2d Window, size2d Stride = Window, padding Padding = padding::valid, bool CountPadding = false,
          Expression Expr>
[[nodiscard]] auto avg_pool2d(const Expr& images) {
  using mistaken = pool_mistake<Expr, Window, Stride, Padding>;
  static_assert(correct<mistaken>,
                "avg_pool2d: needs floating-point images that are not smaller than the window: cast<float>(x)");
  if constexpr (correct<mistaken>)
    return detail::pool<pool_kind::average, Window, Stride, Padding, CountPadding>(materialize(images));
  else
    return detail::same_after_mistake(images);
}

}  // namespace weft

WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/pooling.hpp>
#endif
