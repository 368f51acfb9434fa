// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/images/conv2d_transpose.hpp>
#include <weft/ops/images/convolution.hpp>
#include <weft/ops/images/unfold.hpp>
#include <weft/ops/images/volume.hpp>

/// Convolutions of volumes. Not part of <weft/weft.hpp>.
namespace weft {

/// The options of conv3d; see conv2d_options.
struct conv3d_options {
  size3d stride = 1;
  padding3d pad = padding3d::same;
  size3d dilation = 1;
};

/// The options of conv3d_transpose; see conv2d_transpose_options.
struct conv3d_transpose_options {
  size3d stride = 1;
  padding3d pad = padding3d::same;
  size3d output_padding = 0;
  size3d dilation = 1;

  constexpr conv2d_transpose_options slice() const {
    return {stride.slice(), pad.slice(), output_padding.slice(), dilation.slice()};
  }
  /// The depth as rows of an image of one column.
  constexpr conv2d_transpose_options along_depth() const {
    return {size2d(stride.depth, 1), pad.along_depth(), size2d(output_padding.depth, 0), size2d(dilation.depth, 1)};
  }
};

namespace detail {

constexpr bool sensible(const conv3d_options& o) { return sensible_volume(o.stride, o.pad, o.dilation); }
constexpr bool sensible(const conv3d_transpose_options& o) { return sensible(o.slice()) && sensible(o.along_depth()); }

}  // namespace detail

/// Filters of conv3d must be of rank 5: depth, height, width, channels of the volumes, filters. All but the last extent
/// are static.
template <class Filters>
struct filters_are_not_of_rank_5 : mistake<(Filters::rank != 5 || Filters::spec[0] < 1 || Filters::spec[1] < 1 ||
                                            Filters::spec[2] < 1 || Filters::spec[3] < 0)> {};

/// The channels of the filters (the fourth extent of conv3d's, the fifth of conv3d_transpose's) differ from the
/// channels of the volumes (the fifth extent).
template <class Volumes, class Filters, std::size_t Axis>
struct conv3d_channels_differ
    : mistake<(Volumes::rank == 5 && Filters::rank == 5 && Volumes::spec[4] != Filters::spec[Axis])> {};

/// Strides and dilations must be at least 1, paddings at least 0, and output paddings less than the stride, and 0 with
/// padding3d::same.
template <auto Options>
struct conv3d_options_out_of_range : mistake<!detail::sensible(Options)> {};

/// The filter is larger than the padded volume.
template <class Volumes, class Filters, conv3d_options O>
struct filter_is_larger_than_volume
    : mistake<(Filters::rank == 5 && !detail::window_fits_volume(Volumes::spec, Filters::spec[0], Filters::spec[1],
                                                                 Filters::spec[2], O.stride, O.pad, O.dilation))> {};

namespace detail {

/// Makes the slices of each window along the depth its channels: `[batch, depth, pixels, channels]` becomes `[batch,
/// windows, pixels, window * channels]`. Names the caller in its errors.
template <class T>
struct depth_windows_op : unfold_op<T> {
  static constexpr const char* name = "conv3d";
};

/// Returns `[batch, windows, height, width, window * channels]` of volumes; `Depth` is dims<windows>.
template <class Depth, int Window, window_options Along, class X>
auto windows_of_depth(const X& x) {
  using T = value_t<X>;
  using D = dims_t<X>;
  if constexpr (X::symbolic) {
    gpu::compile_kernels<gpu::moves, T>();
    gpu::compile_kernels<fold_op, T>();
  }
  const auto planes = merge_axes<2>(x);
  constexpr int channels = Window * static_cast<int>(D::spec[4]);
  using Windows =
      dims<extent_at<D, 0>::value, extent_at<Depth, 0>::value, extent_at<dims_t<decltype(planes)>, 2>::value, channels>;
  const window_call call = call_windows(extents_of(planes), Window, 1, channels, Along);
  const auto windows =
      call_operation<depth_windows_op<T>, T, Windows>(call.result, {call.attributes, Window, 1, false}, planes);
  return with_slices_of<2>(windows, x);
}

/// Returns filters `[height, width, depth * channels, filters]` for `[depth, height, width, channels, filters]`.
template <class Filters>
auto with_depth_in_channels(const Filters& filters) {
  if constexpr (dims_t<Filters>::spec[0] == 1)
    return merge_axes<0>(filters);
  else
    return merge_axes<2>(transpose<1, 2, 0, 3, 4>(filters));
}

}  // namespace detail

/// Convolves volumes `[batch, depth, height, width, channels]` with filters `[depth, height, width, channels, filters]`
/// (tf.nn.conv3d; a weight of torch.nn.Conv3d, `[filters, channels, depth, height, width]`, is
/// `transpose<2, 3, 4, 1, 0>(w)` here). The result is ``[batch, depth', height', width', filters]``. The slices that a
/// filter reads become channels of one slice, so that a 2-d convolution computes all of them, on CPUs and GPUs; this
/// takes memory for as many copies of the volumes as the filter is deep. Takes the element types of conv2d.
template <conv3d_options Options = conv3d_options{}, Expression A, Expression B>
[[nodiscard]] auto conv3d(const A& volumes, const B& filters) {
  using T = value_t<A>;
  using mistaken = first_mistake<volumes_are_not_of_rank_5<dims_t<A>>, filters_are_not_of_rank_5<dims_t<B>>,
                                 conv3d_channels_differ<dims_t<A>, dims_t<B>, 3>, conv3d_options_out_of_range<Options>,
                                 filter_is_larger_than_volume<dims_t<A>, dims_t<B>, Options>,
                                 element_types_differ<T, value_t<B>>, conv2d_undefined_for<T>>;
  static_assert(correct<mistaken>,
                "conv3d: needs volumes [batch, depth, height, width, channels] and filters [depth, height, width, "
                "channels, filters] of one floating-point type, and options that fit them");
  return detail::unless<mistaken>(volumes, filters, []<class X, class Filters>(const X& x, const Filters& given) {
    using D = dims_t<X>;
    using F = dims_t<Filters>;
    constexpr int window = static_cast<int>(F::spec[0]);
    static constexpr detail::window_options along = detail::depth_of(Options.stride, Options.pad, Options.dilation);
    static constexpr conv2d_options slice{Options.stride.slice(), Options.pad.slice(), Options.dilation.slice()};
    using Depth = dims<detail::numbers_of<along>::type::template rows<detail::extent_at<D, 1>::value, window>()>;
    const auto w = detail::with_depth_in_channels(given);
    const auto convolve = [&](const auto& slices) {
      return detail::as_volumes<Depth, D>(conv2d<slice>(detail::merge_axes<0>(slices), w), extents_of(slices));
    };
    if constexpr (window == 1 && Options.stride.depth == 1 &&
                  std::is_same_v<Depth, dims<detail::extent_at<D, 1>::value>>)
      return convolve(x);
    else
      return convolve(detail::windows_of_depth<Depth, window, along>(x));
  });
}

/// The transpose of conv3d, which enlarges volumes by the stride (torch.nn.functional.conv_transpose3d,
/// tf.nn.conv3d_transpose): volumes `[batch, depth, height, width, in]` and filters `[depth, height, width, out, in]`
/// yield ``[batch, depth', height', width', out]``, whose extents are those of conv2d_transpose. Throws
/// invalid_argument if run-time extents do not fit.
template <conv3d_transpose_options Options = conv3d_transpose_options{}, Expression A, Expression B>
[[nodiscard]] auto conv3d_transpose(const A& volumes, const B& filters) {
  using T = value_t<A>;
  using mistaken = first_mistake<volumes_are_not_of_rank_5<dims_t<A>>, filters_are_not_of_rank_5<dims_t<B>>,
                                 conv3d_channels_differ<dims_t<A>, dims_t<B>, 4>, conv3d_options_out_of_range<Options>,
                                 element_types_differ<T, value_t<B>>, conv2d_undefined_for<T>>;
  static_assert(correct<mistaken>,
                "conv3d_transpose: needs volumes [batch, depth, height, width, in] and filters [depth, height, width, "
                "out, in] of one floating-point type, and options that fit them");
  return detail::unless<mistaken>(volumes, filters, []<class X, class Filters>(const X& x, const Filters& given) {
    using D = dims_t<X>;
    using F = dims_t<Filters>;
    constexpr int window = static_cast<int>(F::spec[0]), channels = static_cast<int>(F::spec[3]);
    static constexpr conv2d_transpose_options along = Options.along_depth(), slice = Options.slice();
    constexpr std::int64_t excess = detail::transposed_rows_excess(window, along);
    using Depth = dims<detail::transposed_extent<detail::extent_at<D, 1>::value, Options.stride.depth, excess>()>;
    const shape from = extents_of(x);
    const auto y = conv2d_transpose<slice>(detail::merge_axes<0>(x), detail::with_depth_in_channels(given));
    const auto windows = detail::merge_axes<2>(detail::as_volumes<dims<detail::extent_at<D, 1>::value>, D>(y, from));
    const std::int64_t depth = detail::enlarged(from[1], Options.stride.depth, excess);
    using Sums = dims<detail::extent_at<D, 0>::value, detail::extent_at<Depth, 0>::value,
                      detail::extent_at<dims_t<decltype(windows)>, 2>::value, channels>;
    const auto sums =
        call_operation<fold_op<T>, T, Sums>(shape(from[0], depth, extents_of(windows)[2], channels),
                                            {detail::transposed_windows(along, window, 1), window, 1, false}, windows);
    return detail::with_slices_of<1>(sums, y);
  });
}

template <auto...>
auto conv3d(...) WEFT_DELETED;  // options are in brackets: conv3d<conv3d_options{.stride = 2}>(x, filters)
template <auto...>
auto conv3d_transpose(...) WEFT_DELETED;  // options are in brackets: conv3d_transpose<conv3d_transpose_options{}>(x, w)

}  // namespace weft
