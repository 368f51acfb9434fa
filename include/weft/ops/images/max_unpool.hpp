// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/arrays/counted.hpp>
#include <weft/ops/arrays/merge_axes.hpp>
#include <weft/ops/images/pooling.hpp>
#include <weft/ops/index/gather.hpp>

/// Positions of maxima, and pools in reverse. Not part of <weft/weft.hpp>.
namespace weft {

/// The largest elements of windows, and their positions.
template <class Values, class Indices>
struct indexed_maxima {
  Values values;
  Indices indices;
};

/// The indices must have the extents of the values.
template <class Values, class Indices>
struct unpooled_extents_differ : mistake<!(Values::spec == Indices::spec)> {};

namespace detail {

/// Returns the positions of the pixels, 0 to height * width - 1, under the extents of x.
template <class X>
auto pixel_positions(const X& x) {
  using D = dims_t<X>;
  using Line = axes_merged<dims<extent_at<D, 1>::value, extent_at<D, 2>::value>, 0, 2>;
  using Plane = dims<1, extent_at<D, 1>::value, extent_at<D, 2>::value, 1>;
  const shape& of = extents_of(x);
  const auto line = counted_from_0<value_t<X>, Line>(x, X::symbolic ? 0 : of[1] * of[2]);
  const auto plane = under_extents<Plane>(line, shape(1, of[1], of[2], 1));
  if constexpr (X::symbolic) {
    gpu::compile_kernels<gpu::moves, value_t<X>>();
    return broadcast_to<D>(plane);
  } else {
    return broadcast_to<D>(plane, of);
  }
}

}  // namespace detail

/// Returns the result of max_pool2d, and for each maximum its position in the image, row * width + column,
/// std::int32_t (return_indices of torch.nn.functional.max_pool2d): `auto [values, indices] =
/// max_pool2d_with_indices<2>(x)`. tf.nn.max_pool_with_argmax has `indices * channels + channel`. For float, images
/// have at most 2^24 pixels.
template <size2d Window, size2d Stride = Window, padding Padding = padding::valid, Expression Expr>
[[nodiscard]] auto max_pool2d_with_indices(const Expr& images) {
  using T = value_t<Expr>;
  using mistaken = first_mistake<not_floating<T>, pool_mistake<Expr, Window, Stride, Padding>>;
  static_assert(correct<mistaken>,
                "max_pool2d_with_indices: needs float or double images that are not smaller than the window: "
                "cast<float>(x)");
  if constexpr (correct<mistaken>) {
    using D = detail::pool_result<dims_t<Expr>, Window, Stride, Padding>;
    const auto x = materialize(images);
    auto values = max_pool2d<Window, Stride, Padding>(x);
    const shape from = extents_of(x);
    const detail::window_call call =
        detail::call_windows(from, Window.height, Window.width, from[3], {Stride, Padding});
    auto indices = materialize(cast<std::int32_t>(call_operation<pool_op<T, pool_kind::max_choice>, T, D>(
        call.result, {call.attributes, Window.height, Window.width, false}, x, detail::pixel_positions(x))));
    return indexed_maxima<decltype(values), decltype(indices)>{values, indices};
  } else {
    auto x = detail::same_after_mistake(images);
    return indexed_maxima<decltype(x), decltype(x)>{x, x};
  }
}

/// Returns images `[batch, Height, Width, channels]` with the values `[batch, h, w, channels]` at their indices in
/// each image, and zeros elsewhere (torch.nn.functional.max_unpool2d): `max_unpool2d<28, 28>(values, indices)`. Values
/// with equal indices, such as the maxima of overlapping windows, are added. Indices are std::int32_t or std::int64_t;
/// an index out of range throws out_of_range on a CPU, and is ignored on a GPU.
template <int Height, int Width, Expression Values, Expression Indices>
[[nodiscard]] auto max_unpool2d(const Values& values, const Indices& at) {
  using T = value_t<Values>;
  using D = dims_t<Values>;
  using mistaken = first_mistake<images_are_not_of_rank_4<D>, unpooled_extents_differ<D, dims_t<Indices>>,
                                 row_indices_not_integers<value_t<Indices>>, pool_undefined_for<T>>;
  static_assert(correct<mistaken>,
                "max_unpool2d<height, width>: needs floating-point values [batch, h, w, channels], and integer indices "
                "of equal extents, as max_pool2d_with_indices returns them");
  if constexpr (correct<mistaken>) {
    using Rows = dims<detail::extent_at<D, 0>::value, Height * Width, detail::extent_at<D, 3>::value>;
    using To = dims<detail::extent_at<D, 0>::value, Height, Width, detail::extent_at<D, 3>::value>;
    const auto x = detail::merge_axes<1>(materialize(values));
    const auto i = detail::merge_axes<1>(materialize(at));
    const shape of = extents_of(x);
    return detail::under_extents<To>(
        call_operation<batch_scatter_add_op<T>, T, Rows>(shape(of[0], Height * Width, of[2]),
                                                         {std::size_t{1}, std::size_t{1}, true}, x, i),
        shape(of[0], Height, Width, of[2]));
  } else {
    return detail::after_mistake<T, D>(values, at);
  }
}

template <auto...>
auto max_unpool2d(...) WEFT_DELETED;  // the size of the result is in brackets: max_unpool2d<28, 28>(values, indices)

}  // namespace weft
