// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/grouped_convolution.hpp>

/// Depthwise convolutions. Not part of <weft/weft.hpp>.
namespace weft {

/// Convolves each channel with its own filters: images `[batch, height, width, channels]` and filters `[height, width,
/// channels, multiplier]` yield ``[batch, height', width', channels * multiplier]``, in which the results of a channel
/// are adjacent (tf.nn.depthwise_conv2d). Takes the options of conv2d. For float and double; the extents of the filters
/// must be static. Elementwise operations on the result run in the same kernel. On GPUs, uses cuDNN if the program is
/// built with it. Throws invalid_argument if run-time extents do not fit.
template <conv2d_options Options = conv2d_options{}, Expression A, Expression B>
[[nodiscard]] auto depthwise_conv2d(const A& images, const B& filters);

namespace detail {

constexpr bool depthwise_fits(const shape& images, const shape& filters) {
  return images.rank != 4 || filters.rank != 4 || (images[3] == filters[2] && filters[2] > 0 && filters[3] > 0);
}

}  // namespace detail

/// The filters must have the channels of the images; the numbers of channels and the multiplier must be static.
template <class Images, class Filters>
struct depthwise_channels_differ : mistake<!detail::depthwise_fits(Images::spec, Filters::spec)> {};

/// The first mistake in the extents of a depthwise convolution, if any.
template <class Images, class Filters, conv2d_options Options>
using depthwise_conv2d_mistake =
    first_mistake<images_are_not_of_rank_4<Images>, filters_are_not_of_rank_4<Filters>,
                  depthwise_channels_differ<Images, Filters>, conv2d_options_out_of_range<Options>,
                  filter_extents_are_dynamic<Filters>, filter_is_larger_than_image<Images, Filters, Options>>;

namespace detail {

template <class Images, class Filters, conv2d_options Options>
struct depthwise_result {
  using windows = typename numbers_of<windows_of(Options)>::type;
  using type =
      dims<extent_at<Images, 0>::value, windows::template rows<extent_at<Images, 1>::value, Filters::spec[0]>(),
           windows::template columns<extent_at<Images, 2>::value, Filters::spec[1]>(),
           static_cast<int>(Filters::spec[2] * Filters::spec[3])>;
};

}  // namespace detail

template <conv2d_options Options, Expression A, Expression B>
auto depthwise_conv2d(const A& images, const B& filters) {
  using T = value_t<A>;
  using DA = dims_t<A>;
  using DB = dims_t<B>;
  using mistaken =
      first_mistake<depthwise_conv2d_mistake<DA, DB, Options>, element_types_differ<T, value_t<B>>, not_floating<T>>;
  static_assert(correct<mistaken>,
                "depthwise_conv2d: needs images [batch, height, width, channels] and filters [height, width, channels, "
                "multiplier], both float or both double, and options that fit them");
  if constexpr (!correct<mistaken>) {
    return detail::after_mistake<T, DA>(images, filters);
  } else {
    using D = typename detail::depthwise_result<DA, DB, Options>::type;
    if constexpr (A::symbolic || B::symbolic) gpu::compile_kernels<grouped_convolution_op, T>();
    const auto x = materialize(images);
    const auto w = materialize(filters);
    const shape window = extents_of(w);
    const detail::window_call call =
        detail::call_windows(extents_of(x), window[0], window[1], window[2] * window[3], detail::windows_of(Options));
    return call_operation<grouped_convolution_op<T>, T, D>(call.result, {call.attributes, window[2]}, x, w);
  }
}

template <auto...>
auto depthwise_conv2d(...) WEFT_DELETED;  // options are in brackets: depthwise_conv2d<conv2d_options{}>(x, filters)

}  // namespace weft
