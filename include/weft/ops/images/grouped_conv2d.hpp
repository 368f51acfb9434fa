// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/grouped_convolution.hpp>

/// Grouped convolutions. Not part of <weft/weft.hpp>.
namespace weft {

/// The images must have `Groups` times the channels of the filters, and the number of filters must be a multiple of
/// `Groups`.
template <class Images, class Filters, int Groups>
struct conv2d_groups_do_not_fit
    : mistake<(Images::rank == 4 && Filters::rank == 4 &&
               (Groups < 1 || Filters::spec[2] < 1 || Filters::spec[3] < 1 ||
                Filters::spec[3] % (Groups < 1 ? 1 : Groups) != 0 || Images::spec[3] != Filters::spec[2] * Groups))> {};

/// The first mistake in the extents of a grouped convolution, if any.
template <class Images, class Filters, int Groups, conv2d_options Options>
using grouped_conv2d_mistake =
    convolution_mistake<Images, Filters, Options, conv2d_groups_do_not_fit<Images, Filters, Groups>>;

/// A convolution in which each of `Groups` groups of filters reads only its own group of channels (torch.nn.Conv2d with
/// groups; tf.nn.conv2d with fewer channels in the filters): `grouped_conv2d<32>(images, filters)`. Images are `[batch,
/// height, width, in]`, filters `[height, width, in / Groups, out]`, and the result has the extents of conv2d's, with
/// `out` channels. The numbers of channels and filters must be static multiples of `Groups`. Elementwise operations on
/// the result run in the same kernel. On GPUs, uses cuDNN if the program is built with it.
template <int Groups, conv2d_options Options = conv2d_options{}, Expression A, Expression B>
[[nodiscard]] auto grouped_conv2d(const A& images, const B& filters) {
  using T = value_t<A>;
  using mistaken = first_mistake<grouped_conv2d_mistake<dims_t<A>, dims_t<B>, Groups, Options>,
                                 element_types_differ<T, value_t<B>>, conv2d_undefined_for<T>>;
  static_assert(correct<mistaken>,
                "grouped_conv2d: needs images [batch, height, width, in] and filters [height, width, in / groups, out] "
                "of one floating-point type, and options that fit them");
  return detail::unless<mistaken>(images, filters, [](const auto& x, const auto& w) {
    return detail::convolve<grouped_convolution_op, Options>(x, w, Groups);
  });
}

template <auto...>
auto grouped_conv2d(...) WEFT_DELETED;  // groups, then options: grouped_conv2d<32, conv2d_options{}>(images, filters)

}  // namespace weft
