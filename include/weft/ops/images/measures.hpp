// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/pad_modes.hpp>
#include <weft/ops/images/color.hpp>
#include <weft/ops/images/depthwise_conv2d.hpp>
#include <weft/ops/images/grid_sample.hpp>

/// Edges, differences and statistics of images `[batch, height, width, channels]`, float or double. The functions are
/// compositions with gradients. Not part of <weft/weft.hpp>.
namespace weft {

/// The differences from the pixel below and from the pixel to the right; 0 in the last row and column.
template <class Rows, class Columns>
struct pixel_differences {
  Rows dy;
  Columns dx;
};

/// The options of ssim, with TensorFlow's default values.
struct ssim_options {
  double sigma = 1.5;  ///< of the Gaussian window
  double k1 = 0.01, k2 = 0.03;
};

/// Two images must have equal extents.
template <class A, class B>
struct image_extents_differ : mistake<!(A::spec == B::spec)> {};

template <class Expr>
using measure_mistake = first_mistake<images_are_not_of_rank_4<dims_t<Expr>>, not_floating<value_t<Expr>>>;

namespace detail {

template <class A, class B>
using comparison_mistake = first_mistake<measure_mistake<A>, image_extents_differ<dims_t<A>, dims_t<B>>,
                                         element_types_differ<value_t<A>, value_t<B>>>;

/// Returns the difference between each element of an axis and the one before it.
template <int Axis, class X>
auto differences(const X& x) {
  return materialize(slice<Axis, 1, -1>(x) - slice<Axis, 0, extent_of<dims_t<X>, Axis>() - extent<1>>(x));
}

/// Returns the means of windows, weighted by a Gaussian along both axes.
template <int Window, class X>
auto gaussian_means(const X& x, double sigma) {
  using T = value_t<X>;
  constexpr int channels = static_extent<X, 3>();
  constexpr conv2d_options valid{.pad = padding::valid};
  tensor<T, dims<Window, 1, channels, 1>> down;
  tensor<T, dims<1, Window, channels, 1>> across;
  double weights[Window], all = 0;
  for (int i = 0; i < Window; ++i) {
    const double at = (i - (Window - 1) / 2.0) / sigma;
    all += weights[i] = __builtin_exp(-0.5 * at * at);
  }
  for (int i = 0; i < Window * channels; ++i)
    down.data()[i] = across.data()[i] = static_cast<T>(weights[i / channels] / all);
  return depthwise_conv2d<valid>(depthwise_conv2d<valid>(x, down), across);
}

}  // namespace detail

/// Returns the differences between neighbouring pixels (tf.image.image_gradients): `auto [dy, dx] =
/// image_gradients(x)`.
template <Expression Expr>
[[nodiscard]] auto image_gradients(const Expr& images) {
  static_assert(correct<measure_mistake<Expr>>,
                "image_gradients: needs float or double images [batch, height, width, channels]");
  if constexpr (correct<measure_mistake<Expr>>) {
    const auto x = materialize(images);
    auto dy = pad<1, 0, 1>(detail::differences<1>(x));
    auto dx = pad<2, 0, 1>(detail::differences<2>(x));
    return pixel_differences<decltype(dy), decltype(dx)>{dy, dx};
  } else {
    auto x = detail::same_after_mistake(images);
    return pixel_differences<decltype(x), decltype(x)>{x, x};
  }
}

/// Returns the sum of the absolute differences between neighbouring pixels of each image, `[batch]`
/// (tf.image.total_variation).
template <Expression Expr>
[[nodiscard]] auto total_variation(const Expr& images) {
  static_assert(correct<measure_mistake<Expr>>,
                "total_variation: needs float or double images [batch, height, width, channels]");
  return detail::unless<measure_mistake<Expr>>(images, [&](const auto& x) {
    return materialize(sum<1, 2, 3>(abs(detail::differences<1>(x))) + sum<1, 2, 3>(abs(detail::differences<2>(x))));
  });
}

/// Returns Sobel's vertical and horizontal edges, `[batch, height, width, channels, 2]` (tf.image.sobel_edges). Images
/// are mirrored at their borders, and need at least two rows and columns.
template <Expression Expr>
[[nodiscard]] auto sobel_edges(const Expr& images) {
  using D = dims_t<Expr>;
  using T = value_t<Expr>;
  using mistaken = first_mistake<measure_mistake<Expr>, extent_is_not_an_int<D, -1>>;
  static_assert(correct<mistaken>,
                "sobel_edges: needs float or double images [batch, height, width, channels] with a static number of "
                "channels");
  if constexpr (correct<mistaken>) {
    constexpr int channels = static_extent<Expr, -1>();
    constexpr double weights[2][9] = {{-1, -2, -1, 0, 0, 0, 1, 2, 1}, {-1, 0, 1, -2, 0, 2, -1, 0, 1}};
    tensor<T, dims<3, 3, channels, 2>> filters;
    for (int i = 0; i < 9 * channels * 2; ++i) filters.data()[i] = static_cast<T>(weights[i % 2][i / (2 * channels)]);
    const auto padded = pad<2, 1, 1, pad_mode::reflect>(pad<1, 1, 1, pad_mode::reflect>(images));
    const auto y = depthwise_conv2d<conv2d_options{.pad = padding::valid}>(padded, filters);
    using To = dims<detail::extent_at<D, 0>::value, detail::extent_at<D, 1>::value, detail::extent_at<D, 2>::value,
                    channels, 2>;
    const shape from = extents_of(y);
    return detail::under_extents<To>(y, shape(from[0], from[1], from[2], channels, 2));
  } else {
    return detail::same_after_mistake(images);
  }
}

/// Scales each image to mean 0 and standard deviation 1 (tf.image.per_image_standardization). The deviation counts as
/// at least 1 / sqrt(number of elements).
template <Expression Expr>
[[nodiscard]] auto per_image_standardization(const Expr& images) {
  using T = value_t<Expr>;
  static_assert(correct<measure_mistake<Expr>>,
                "per_image_standardization: needs float or double images [batch, height, width, channels]: "
                "cast<float>(x)");
  return detail::unless<measure_mistake<Expr>>(images, [&](const auto& x) {
    const auto centered = materialize(x - mean<1, 2, 3, keep_dims>(x));
    const auto deviation = materialize(sqrt(mean<1, 2, 3, keep_dims>(square(centered))));
    const auto elements =
        detail::number_as<T>(detail::extent_as<T, 1>(x) * detail::extent_as<T, 2>(x) * detail::extent_as<T, 3>(x));
    if constexpr (Expression<std::remove_cvref_t<decltype(elements)>>)
      return materialize(centered / maximum(deviation, rsqrt(elements)));
    else
      return materialize(centered /
                         maximum(deviation, static_cast<T>(1 / __builtin_sqrt(static_cast<double>(elements)))));
  });
}

/// Returns the peak signal-to-noise ratio of each pair of images in decibels, `[batch]` (tf.image.psnr); `max_value` is
/// the difference between the largest and the smallest possible element. Infinite for equal images.
template <Expression A, Expression B>
[[nodiscard]] auto psnr(const A& a, const B& b, double max_value) {
  using T = value_t<A>;
  using mistaken = detail::comparison_mistake<A, B>;
  static_assert(correct<mistaken>,
                "psnr: needs two float or double images [batch, height, width, channels] of equal extents");
  constexpr double decibels = 10 / 2.302585092994045684;  // for each natural logarithm of a power
  if constexpr (correct<mistaken>)
    return materialize(static_cast<T>(2 * decibels * __builtin_log(max_value)) -
                       static_cast<T>(decibels) * log(mean<1, 2, 3>(square(a - b))));
  else
    return detail::after_mistake<T, dims_t<A>>(a, b);
}

/// Returns the structural similarity of each pair of images, `[batch]` (tf.image.ssim; Wang et al., Image Quality
/// Assessment, 2004): the mean over all `Window` x `Window` parts. The number of channels is static.
template <int Window = 11, Expression A, Expression B>
[[nodiscard]] auto ssim(const A& a, const B& b, double max_value, const ssim_options& options = {}) {
  using T = value_t<A>;
  using mistaken = first_mistake<detail::comparison_mistake<A, B>, extent_is_not_an_int<dims_t<A>, -1>>;
  static_assert(
      correct<mistaken>,
      "ssim<window>: needs two float or double images [batch, height, width, channels] of equal extents with a "
      "static number of channels");
  return detail::unless<mistaken>(a, b, [&](const auto& x, const auto& y) {
    const auto means = [&](const auto& of) { return detail::gaussian_means<Window>(materialize(of), options.sigma); };
    const T c1 = static_cast<T>(options.k1 * max_value * options.k1 * max_value);
    const T c2 = static_cast<T>(options.k2 * max_value * options.k2 * max_value);
    const auto of_x = means(x), of_y = means(y);
    const auto product = materialize(of_x * of_y * T(2));
    const auto squares = materialize(square(of_x) + square(of_y));
    const auto luminance = materialize((product + c1) / (squares + c1));
    const auto structure =
        materialize((means(x * y) * T(2) - product + c2) / (means(square(x) + square(y)) - squares + c2));
    return materialize(mean<1, 2, 3>(luminance * structure));
  });
}

}  // namespace weft
