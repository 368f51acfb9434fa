// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/products/matmul.hpp>

/// Normalization across neighbouring channels. Not part of <weft/weft.hpp>.
namespace weft {

/// The options of local_response_normalization, with TensorFlow's default values.
struct local_response_options {
  int depth_radius = 5;  ///< channels on each side
  double bias = 1;
  double alpha = 1;
  double beta = 0.5;
};

/// The operand needs an axis in front of its channels.
template <class Dims>
struct operand_has_no_channels : mistake<(Dims::rank < 2)> {};

namespace detail {

/// Returns a matrix of ones within `radius` of the diagonal; its product with the squares sums over neighbours.
template <class T, int Channels>
auto ones_near_diagonal(int radius) {
  tensor<T, dims<Channels, Channels>> band;
  for (int i = 0; i < Channels; ++i)
    for (int j = 0; j < Channels; ++j)
      band.data()[static_cast<std::size_t>(i) * Channels + static_cast<std::size_t>(j)] =
          static_cast<T>((i < j ? j - i : i - j) <= radius);
  return band;
}

}  // namespace detail

/// Returns x / (bias + alpha * s)^beta, where s is the sum of the squares of the element and its `depth_radius`
/// neighbours on each side along the last axis, `[..., channels]` (tf.nn.local_response_normalization; Krizhevsky et
/// al., ImageNet Classification with Deep Convolutional Neural Networks, 2012). torch.nn.LocalResponseNorm(size, a,
/// beta, k) corresponds to `{.depth_radius = (size - 1) / 2, .bias = k, .alpha = a / size, .beta = beta}`. For float
/// and double; the number of channels must be static. Throws invalid_argument if the radius is negative.
template <Expression Expr>
[[nodiscard]] auto local_response_normalization(const Expr& x, const local_response_options& options = {}) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistaken = first_mistake<operand_has_no_channels<D>, extent_is_not_an_int<D, -1>, not_floating<T>>;
  static_assert(correct<mistaken>,
                "local_response_normalization: needs float or double, [..., channels] with a number of channels known "
                "at compile time: cast<float>(x)");
  return detail::unless<mistaken>(x, [&](const auto& images) {
    if (options.depth_radius < 0)
      throw error(error_code::invalid_argument, "local_response_normalization",
                  {"depth_radius must be at least 0; it is ", options.depth_radius});
    const auto band = detail::ones_near_diagonal<T, static_extent<decltype(images), -1>()>(options.depth_radius);
    return materialize(images *
                       pow(static_cast<T>(options.bias) + static_cast<T>(options.alpha) * matmul(square(images), band),
                           static_cast<T>(-options.beta)));
  });
}

template <auto...>
auto local_response_normalization(...) WEFT_DELETED;  // options follow: local_response_normalization(x, {.bias = 2})

}  // namespace weft
