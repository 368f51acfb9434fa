// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/pooling.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/images/window.hpp>
#include <weft/ops/lowering.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// Returns the largest element of each window of images `[batch, height, width, channels]`, for each channel
/// (tf.nn.max_pool2d): `max_pool2d<2>(x)` halves height and width. By default, windows do not overlap. The gradient
/// goes to the first maximum of a window, row by row, as in PyTorch and TensorFlow. If a window contains NaN, its value
/// is NaN, as for `max`, and the gradient goes to the window's last NaN, as in PyTorch. TensorFlow's CPU kernel skips
/// NaNs, which hides errors in training.
template <size2d Window, size2d Stride = Window, padding Padding = padding::valid, Expression Expr>
[[nodiscard]] auto max_pool2d(const Expr& images);

/// Makes average pools count padding as zeros (PyTorch's count_include_pad, its default).
inline constexpr bool count_padding = true;

/// Returns the mean of each window of images `[batch, height, width, channels]`, for each channel (tf.nn.avg_pool2d).
/// By default, windows at the edges average only the elements inside the image, as in TensorFlow. `avg_pool2d<3, 1,
/// padding::of(1), count_padding>(x)` divides by the whole window, like PyTorch's default. Elements of half and
/// bfloat16 are summed in float and rounded once; so are the gradients of all pools.
template <size2d Window, size2d Stride = Window, padding Padding = padding::valid, bool CountPadding = false,
          Expression Expr>
[[nodiscard]] auto avg_pool2d(const Expr& images);

namespace detail {

/// The attributes of a pool. Dilations are 1. The windows of an adaptive pool (ops/images/adaptive_pooling.hpp) are 0.
struct pool_attributes {
  window_attributes windows;
  attribute<std::int64_t> window_height, window_width;
  attribute<bool> counts_padding;
};

/// Returns the extents of a call, from its attributes, its images and its result.
inline convolution_shape pooling_of(const prepare_context& p, const pool_attributes& a, const shape& images,
                                    const shape& result) {
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

/// Inputs: images; output: the largest element of each window.
template <class T>
struct max_pool_op {
  static constexpr const char* name = "max_pool2d";
  using attributes = detail::pool_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return device::make_max_pool<T>(detail::pooling_of(p, a, p.inputs[0].extents, p.outputs[0].extents),
                                    p.input_slots[0], p.output_slots[0]);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Inputs: images, the pool's value and its gradient. Output: the gradient of the images (tf.raw_ops.MaxPoolGrad). Only
/// GPU libraries need the value; the CPU searches the maxima again.
template <class T>
struct max_pool_gradient_op {
  static constexpr const char* name = "max_pool2d_gradient";
  static constexpr bool takes_gradients = true;
  static constexpr bool yields_zeros(const node_def&) { return true; }
  using attributes = detail::pool_attributes;

  static kernel* prepare_fused(const prepare_context& p, const attributes& a, const product_fusion& f) {
    return device::make_max_pool_gradient<T>(detail::pooling_of(p, a, p.inputs[0].extents, p.inputs[2].extents),
                                             p.input_slots[0], p.input_slots[2], f.result, f.epilogue_on_cpu());
  }
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return prepare_fused(p, a, {p.output_slots[0]});
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 1 ? operand_use::extents : operand_use::read;
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Inputs: images, and values of the same extents. Output: for each window, the value at the position of the images'
/// maximum (tf.raw_ops.MaxPoolGradGrad).
template <class T>
struct max_pool_choice_op {
  static constexpr const char* name = "max_pool2d_choice";
  using attributes = detail::pool_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return device::make_max_pool_choice<T>(detail::pooling_of(p, a, p.inputs[0].extents, p.outputs[0].extents),
                                           p.input_slots[0], p.input_slots[1], p.output_slots[0]);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Inputs: images. Output: the mean of each window.
template <class T>
struct average_pool_op {
  static constexpr const char* name = "avg_pool2d";
  using attributes = detail::pool_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return device::make_average_pool<T>(detail::pooling_of(p, a, p.inputs[0].extents, p.outputs[0].extents),
                                        p.input_slots[0], p.output_slots[0]);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Inputs: the gradient of the pool's value. Output: the gradient of the images (tf.raw_ops.AvgPoolGrad).
template <class T>
struct average_pool_gradient_op {
  static constexpr const char* name = "avg_pool2d_gradient";
  static constexpr bool takes_gradients = true;
  using attributes = detail::pool_attributes;

  static kernel* prepare_fused(const prepare_context& p, const attributes& a, const product_fusion& f) {
    return device::make_average_pool_gradient<T>(detail::pooling_of(p, a, p.outputs[0].extents, p.inputs[0].extents),
                                                 p.input_slots[0], f.result, f.epilogue_on_cpu());
  }
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return prepare_fused(p, a, {p.output_slots[0]});
  }
  static void gradient(gradient_context&, const attributes&);
};

template <class T>
void max_pool_op<T>::gradient(gradient_context& g, const attributes& a) {
  const symbol x = g.input(0);
  g.set_gradient(0, record<max_pool_gradient_op<T>>({x, g.output(), g.upstream()}, x.info(), a));
}
// A small change of the images does not move the maxima, so the images have no second gradient.
template <class T>
void max_pool_gradient_op<T>::gradient(gradient_context& g, const attributes& a) {
  if (g.needs_gradient(2))
    g.set_gradient(2, record<max_pool_choice_op<T>>({g.input(0), g.upstream()}, g.input(2).info(), a));
}
template <class T>
void max_pool_choice_op<T>::gradient(gradient_context& g, const attributes& a) {
  if (!g.needs_gradient(1)) return;
  const symbol x = g.input(0), y = record<max_pool_op<T>>({x}, g.output().info(), a);
  g.set_gradient(1, record<max_pool_gradient_op<T>>({x, y, g.upstream()}, x.info(), a));
}
template <class T>
void average_pool_op<T>::gradient(gradient_context& g, const attributes& a) {
  g.set_gradient(0, record<average_pool_gradient_op<T>>({g.upstream()}, g.input(0).info(), a));
}
template <class T>
void average_pool_gradient_op<T>::gradient(gradient_context& g, const attributes& a) {
  g.set_gradient(0, record<average_pool_op<T>>({g.upstream()}, g.input(0).info(), a));
}

namespace detail {

WEFT_INSTANTIATE(kernel* prepare_declared<max_pool_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<max_pool_gradient_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<max_pool_choice_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<average_pool_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<average_pool_gradient_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(void gradient_of_declared<max_pool_op<float>>(gradient_context&));
WEFT_INSTANTIATE(void gradient_of_declared<max_pool_gradient_op<float>>(gradient_context&));
WEFT_INSTANTIATE(void gradient_of_declared<max_pool_choice_op<float>>(gradient_context&));
WEFT_INSTANTIATE(void gradient_of_declared<average_pool_op<float>>(gradient_context&));
WEFT_INSTANTIATE(void gradient_of_declared<average_pool_gradient_op<float>>(gradient_context&));

constexpr bool window_fits(const shape& images, size2d window, const window_options& o) {
  return images.rank != 4 || has_windows(images, window.height, window.width, o);
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
using pool_mistake = std::conditional_t<
    pool_undefined_for<value_t<Expr>>::value, pool_undefined_for<value_t<Expr>>,
    std::conditional_t<dims_t<Expr>::rank != 4, images_are_not_of_rank_4<dims_t<Expr>>,
                       std::conditional_t<pool_options_out_of_range<Window, Stride, Padding>::value,
                                          pool_options_out_of_range<Window, Stride, Padding>,
                                          window_is_larger_than_image<dims_t<Expr>, Window, Stride, Padding>>>>;

namespace detail {

template <class Images, size2d Window, size2d Stride, padding Padding>
struct pool_result {
  using windows = typename numbers_of<window_options{Stride, Padding}>::type;
  using type =
      dims<extent_at<Images, 0>::value, windows::template rows<extent_at<Images, 1>::value, Window.height>(),
           windows::template columns<extent_at<Images, 2>::value, Window.width>(), extent_at<Images, 3>::value>;
};

template <size2d Window, size2d Stride, padding Padding, class Expr>
auto pool(const operation& op, const Expr& images, bool counts_padding = false) {
  if constexpr (Expr::symbolic) gpu::compile_kernels<max_pool_op, value_t<Expr>>();
  using D = typename pool_result<dims_t<Expr>, Window, Stride, Padding>::type;
  const auto x = materialize(images);
  const shape images_now = extents_of(x);
  const window_call call = call_windows(images_now, Window.height, Window.width, images_now[3], {Stride, Padding});
  return record_or_run<value_t<Expr>, D, device_t<Expr>>(
      op, call.result, attribute_words(pool_attributes{call.attributes, Window.height, Window.width, counts_padding}),
      x);
}

}  // namespace detail

template <size2d Window, size2d Stride, padding Padding, Expression Expr>
auto max_pool2d(const Expr& images) {
  using mistaken = pool_mistake<Expr, Window, Stride, Padding>;
  static_assert(correct<mistaken>,
                "max_pool2d: needs floating-point images that are not smaller than the window: cast<float>(x)");
  if constexpr (mistaken::value)
    return detail::after_mistake<value_t<Expr>, dims_t<Expr>>(images);
  else
    return detail::pool<Window, Stride, Padding>(operation_of<max_pool_op<value_t<Expr>>>, images);
}

template <size2d Window, size2d Stride, padding Padding, bool CountPadding, Expression Expr>
auto avg_pool2d(const Expr& images) {
  using mistaken = pool_mistake<Expr, Window, Stride, Padding>;
  static_assert(correct<mistaken>,
                "avg_pool2d: needs floating-point images that are not smaller than the window: cast<float>(x)");
  if constexpr (mistaken::value)
    return detail::after_mistake<value_t<Expr>, dims_t<Expr>>(images);
  else
    return detail::pool<Window, Stride, Padding>(operation_of<average_pool_op<value_t<Expr>>>, images, CountPadding);
}

}  // namespace weft

WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/pooling.hpp>
#endif
