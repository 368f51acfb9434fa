// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/images/pooling.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Pooling and flattening as layers for `sequential`. They have no variables.
namespace weft::nn {

/// weft::max_pool2d: the largest element of each window (tf.keras.layers.MaxPool2D, torch.nn.MaxPool2d).
template <size2d Window, size2d Stride = Window, padding Padding = padding::valid>
struct max_pool2d {
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = pool_mistake<X, Window, Stride, Padding>;

  auto operator()(const Expression auto& images) const { return weft::max_pool2d<Window, Stride, Padding>(images); }
};

/// weft::avg_pool2d: the mean of each window, without padding (tf.keras.layers.AveragePooling2D).
template <size2d Window, size2d Stride = Window, padding Padding = padding::valid>
struct avg_pool2d {
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = pool_mistake<X, Window, Stride, Padding>;

  auto operator()(const Expression auto& images) const { return weft::avg_pool2d<Window, Stride, Padding>(images); }
};

/// The mean over height and width: [batch, height, width, channels] to [batch, channels]
/// (tf.keras.layers.GlobalAveragePooling2D).
struct global_avg_pool2d {
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = images_are_not_of_rank_4<dims_t<X>>;

  template <Expression X>
  auto operator()(const X& images) const {
    static_assert(correct<operand_mistake<X>>, "global_avg_pool2d: needs images [batch, height, width, channels]");
    return weft::detail::unless<operand_mistake<X>>(images, [](const auto& x) { return let(mean<1, 2>(x)); });
  }
};

/// The maximum over height and width: [batch, height, width, channels] to [batch, channels]
/// (tf.keras.layers.GlobalMaxPooling2D).
struct global_max_pool2d {
  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = images_are_not_of_rank_4<dims_t<X>>;

  template <Expression X>
  auto operator()(const X& images) const {
    static_assert(correct<operand_mistake<X>>, "global_max_pool2d: needs images [batch, height, width, channels]");
    return weft::detail::unless<operand_mistake<X>>(images, [](const auto& x) { return let(max<1, 2>(x)); });
  }
};

/// Flattens each example to one row: [batch, ...] to [batch, elements] (tf.keras.layers.Flatten, torch.nn.Flatten).
struct flatten {
  template <Expression X>
  auto operator()(const X& x) const {
    using D = dims_t<X>;
    static_assert(D::rank > 0, "flatten: needs a batch of examples, [batch, ...]");
    return reshape<dims<extent_of<D, 0>(), -1>>(x);
  }
};

}  // namespace weft::nn
