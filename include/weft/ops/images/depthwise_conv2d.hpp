// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/grouped_convolution.hpp>

/// Depthwise convolutions. Not part of <weft/weft.hpp>.
namespace weft {

/// The filters must have the channels of the images; the numbers of channels and the multiplier must be static.
template <class Images, class Filters>
struct depthwise_channels_differ
    : mistake<(Images::rank == 4 && Filters::rank == 4 &&
               (Images::spec[3] != Filters::spec[2] || Filters::spec[2] < 1 || Filters::spec[3] < 1))> {};

/// The first mistake in the extents of a depthwise convolution, if any.
template <class Images, class Filters, conv2d_options Options>
using depthwise_conv2d_mistake =
    convolution_mistake<Images, Filters, Options, depthwise_channels_differ<Images, Filters>>;

namespace detail {

template <class Images, class Filters, conv2d_options Options>
using depthwise_result = windowed<Images, typename numbers_of<windows_of(Options)>::type, Filters::spec[0],
                                  Filters::spec[1], static_cast<int>(Filters::spec[2] * Filters::spec[3])>;

}  // namespace detail

/// Convolves each channel with its own filters: images `[batch, height, width, channels]` and filters `[height, width,
/// channels, multiplier]` yield ``[batch, height', width', channels * multiplier]``, in which the results of a channel
/// are adjacent (tf.nn.depthwise_conv2d). Takes the options of conv2d. For float and double; the extents of the filters
/// must be static. Elementwise operations on the result run in the same kernel. On GPUs, uses cuDNN if the program is
/// built with it. Throws invalid_argument if run-time extents do not fit.
template <conv2d_options Options = conv2d_options{}, Expression A, Expression B>
[[nodiscard]] auto depthwise_conv2d(const A& images, const B& filters) {
  using T = value_t<A>;
  using mistaken = first_mistake<depthwise_conv2d_mistake<dims_t<A>, dims_t<B>, Options>,
                                 element_types_differ<T, value_t<B>>, not_floating<T>>;
  static_assert(correct<mistaken>,
                "depthwise_conv2d: needs images [batch, height, width, channels] and filters [height, width, channels, "
                "multiplier], both float or both double, and options that fit them");
  return detail::unless<mistaken>(images, filters, []<class X, class Filters>(const X& x, const Filters& w) {
    const shape window = extents_of(w);
    return detail::call_convolution<grouped_convolution_op,
                                    detail::depthwise_result<dims_t<X>, dims_t<Filters>, Options>>(
        x, w, window[2] * window[3], detail::windows_of(Options), window[2]);
  });
}

template <auto...>
auto depthwise_conv2d(...) WEFT_DELETED;  // options are in brackets: depthwise_conv2d<conv2d_options{}>(x, filters)

}  // namespace weft
