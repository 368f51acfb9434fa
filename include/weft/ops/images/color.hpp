// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Colours of images `[..., height, width, channels]`, float or double from 0 to 1 (tf.image). The functions are
/// compositions with gradients. Not part of <weft/weft.hpp>.
namespace weft {

/// Colours must be the last axis, of three channels, after at least one other axis.
template <class Dims>
struct channels_are_not_three : mistake<(Dims::rank < 2 || Dims::spec[Dims::rank - (Dims::rank > 0)] != 3)> {};

/// Images need a height, a width and channels as their last three axes.
template <class Dims>
struct images_have_no_pixels_and_channels : mistake<(Dims::rank < 3)> {};

template <class Expr>
using color_mistake = first_mistake<not_floating<value_t<Expr>>, channels_are_not_three<dims_t<Expr>>>;

namespace detail {

/// Multiplies each pixel, as a row, by a matrix of three rows.
template <int Columns, class Expr>
auto mix_colors(const Expr& images, const double (&table)[3][Columns]) {
  using T = value_t<Expr>;
  tensor<T, dims<3, Columns>> matrix;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < Columns; ++j) matrix(i, j) = static_cast<T>(table[i][j]);
  return unless<color_mistake<Expr>>(images, [&](const auto& x) { return matmul(x, matrix); });
}

template <class Expr>
auto hsv_of(const Expr& x) {
  using T = value_t<Expr>;
  const auto r = slice<-1, 0, 1>(x), g = slice<-1, 1, 1>(x), b = slice<-1, 2, 1>(x);
  const auto value = materialize(maximum(maximum(r, g), b));
  const auto range = materialize(value - minimum(minimum(r, g), b));
  const auto is_gray = materialize(range <= 0);
  const auto sixth = materialize(T(1) / (T(6) * weft::select(is_gray, T(1), range)));
  const auto turn =
      materialize(weft::select(r == value, sixth * (g - b),
                               weft::select(g == value, sixth * (b - r) + T(2.0 / 6), sixth * (r - g) + T(4.0 / 6))));
  const auto hue = materialize(weft::select(is_gray, T(0), weft::select(turn < 0, turn + T(1), turn)));
  const auto saturation = materialize(weft::select(value > 0, range / weft::select(value > 0, value, T(1)), T(0)));
  return concat<-1>(hue, saturation, value);
}

template <class Hue, class Saturation, class Value>
auto rgb_of(const Hue& hue, const Saturation& saturation, const Value& value) {
  using T = value_t<Hue>;
  const tensor<T, dims<3>> peak{3, 2, 4}, sign{1, -1, -1}, offset{-1, 2, 2};
  const auto color = materialize(minimum(maximum(sign * abs(hue * T(6) - peak) + offset, T(0)), T(1)));
  return materialize((T(1) - saturation + saturation * color) * value);
}

}  // namespace detail

/// Returns the brightness of colours, `[..., 1]` (tf.image.rgb_to_grayscale).
template <Expression Expr>
[[nodiscard]] auto rgb_to_grayscale(const Expr& images) {
  static_assert(correct<color_mistake<Expr>>,
                "rgb_to_grayscale: needs float or double images [..., height, width, 3]: cast<float>(x) / 255");
  return detail::mix_colors<1>(images, {{0.2989}, {0.5870}, {0.1140}});
}

/// Repeats a channel, `[..., 1]`, three times (tf.image.grayscale_to_rgb).
template <Expression Expr>
[[nodiscard]] auto grayscale_to_rgb(const Expr& images) {
  const auto x = materialize(images);
  return concat<-1>(x, x, x);
}

/// Returns hue, saturation and value, each from 0 to 1 (tf.image.rgb_to_hsv). Grays have hue 0.
template <Expression Expr>
[[nodiscard]] auto rgb_to_hsv(const Expr& images) {
  static_assert(correct<color_mistake<Expr>>,
                "rgb_to_hsv: needs float or double images [..., height, width, 3]: cast<float>(x) / 255");
  return detail::unless<color_mistake<Expr>>(images, [](const auto& x) { return detail::hsv_of(x); });
}

/// Returns the colours of hue, saturation and value (tf.image.hsv_to_rgb).
template <Expression Expr>
[[nodiscard]] auto hsv_to_rgb(const Expr& images) {
  static_assert(correct<color_mistake<Expr>>,
                "hsv_to_rgb: needs float or double images [..., height, width, 3]: cast<float>(x) / 255");
  return detail::unless<color_mistake<Expr>>(
      images, [](const auto& x) { return detail::rgb_of(slice<-1, 0, 1>(x), slice<-1, 1, 1>(x), slice<-1, 2, 1>(x)); });
}

/// Converts RGB to a brightness and two differences of colour, as in PAL (tf.image.rgb_to_yuv).
template <Expression Expr>
[[nodiscard]] auto rgb_to_yuv(const Expr& images) {
  static_assert(correct<color_mistake<Expr>>,
                "rgb_to_yuv: needs float or double images [..., height, width, 3]: cast<float>(x) / 255");
  return detail::mix_colors<3>(
      images, {{0.299, -0.14714119, 0.61497538}, {0.587, -0.28886916, -0.51496512}, {0.114, 0.43601035, -0.10001026}});
}
/// The inverse of rgb_to_yuv (tf.image.yuv_to_rgb).
template <Expression Expr>
[[nodiscard]] auto yuv_to_rgb(const Expr& images) {
  static_assert(correct<color_mistake<Expr>>,
                "yuv_to_rgb: needs float or double images [..., height, width, 3]: cast<float>(x) / 255");
  return detail::mix_colors<3>(images, {{1, 1, 1}, {0, -0.394642334, 2.03206185}, {1.13988303, -0.58062185, 0}});
}
/// Converts RGB to a brightness and two differences of colour, as in NTSC (tf.image.rgb_to_yiq).
template <Expression Expr>
[[nodiscard]] auto rgb_to_yiq(const Expr& images) {
  static_assert(correct<color_mistake<Expr>>,
                "rgb_to_yiq: needs float or double images [..., height, width, 3]: cast<float>(x) / 255");
  return detail::mix_colors<3>(
      images, {{0.299, 0.59590059, 0.2115}, {0.587, -0.27455667, -0.52273617}, {0.114, -0.32134392, 0.31119955}});
}
/// The inverse of rgb_to_yiq (tf.image.yiq_to_rgb).
template <Expression Expr>
[[nodiscard]] auto yiq_to_rgb(const Expr& images) {
  static_assert(correct<color_mistake<Expr>>,
                "yiq_to_rgb: needs float or double images [..., height, width, 3]: cast<float>(x) / 255");
  return detail::mix_colors<3>(
      images, {{1, 1, 1}, {0.95598634, -0.27201283, -1.10674021}, {0.6208248, -0.64720424, 1.70423049}});
}

/// Adds a number (tf.image.adjust_brightness).
template <Expression Expr>
[[nodiscard]] auto adjust_brightness(const Expr& images, double delta) {
  static_assert(correct<not_floating<value_t<Expr>>>, "adjust_brightness: needs float or double: cast<float>(x) / 255");
  return materialize(images + static_cast<value_t<Expr>>(delta));
}

/// Multiplies the difference from each channel's mean over the pixels of its image (tf.image.adjust_contrast).
template <Expression Expr>
[[nodiscard]] auto adjust_contrast(const Expr& images, double factor) {
  using mistaken = first_mistake<not_floating<value_t<Expr>>, images_have_no_pixels_and_channels<dims_t<Expr>>>;
  static_assert(correct<mistaken>,
                "adjust_contrast: needs float or double images [..., height, width, channels]: cast<float>(x) / 255");
  return detail::unless<mistaken>(images, [&](const auto& x) {
    const auto average = materialize(mean<-3, -2, keep_dims>(x));
    return materialize((x - average) * static_cast<value_t<Expr>>(factor) + average);
  });
}

/// Returns gain * x^gamma (tf.image.adjust_gamma).
template <Expression Expr>
[[nodiscard]] auto adjust_gamma(const Expr& images, double gamma, double gain = 1) {
  using T = value_t<Expr>;
  static_assert(correct<not_floating<T>>, "adjust_gamma: needs float or double: cast<float>(x) / 255");
  return materialize(static_cast<T>(gain) * pow(images, static_cast<T>(gamma)));
}

/// Multiplies the saturation, up to 1 (tf.image.adjust_saturation).
template <Expression Expr>
[[nodiscard]] auto adjust_saturation(const Expr& images, double factor) {
  static_assert(correct<color_mistake<Expr>>,
                "adjust_saturation: needs float or double images [..., height, width, 3]: cast<float>(x) / 255");
  return detail::unless<color_mistake<Expr>>(images, [&](const auto& x) {
    using T = value_t<Expr>;
    const auto hsv = detail::hsv_of(x);
    const auto saturation = minimum(maximum(slice<-1, 1, 1>(hsv) * static_cast<T>(factor), T(0)), T(1));
    return detail::rgb_of(slice<-1, 0, 1>(hsv), materialize(saturation), slice<-1, 2, 1>(hsv));
  });
}

/// Adds to the hue, which is a circle of length 1 (tf.image.adjust_hue).
template <Expression Expr>
[[nodiscard]] auto adjust_hue(const Expr& images, double delta) {
  static_assert(correct<color_mistake<Expr>>,
                "adjust_hue: needs float or double images [..., height, width, 3]: cast<float>(x) / 255");
  return detail::unless<color_mistake<Expr>>(images, [&](const auto& x) {
    const auto hsv = detail::hsv_of(x);
    const auto hue = materialize(slice<-1, 0, 1>(hsv) + static_cast<value_t<Expr>>(delta));
    return detail::rgb_of(materialize(hue - floor(hue)), slice<-1, 1, 1>(hsv), slice<-1, 2, 1>(hsv));
  });
}

}  // namespace weft
