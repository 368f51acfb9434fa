// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/convolution.hpp>

/// Transposed convolutions. Not part of <weft/weft.hpp>.
namespace weft {

/// The options of conv2d_transpose. Stride, padding and dilation are the options of the transposed convolution.
struct conv2d_transpose_options {
  size2d stride = 1;
  padding pad = padding::same;
  size2d output_padding = 0;  ///< rows and columns added below and to the right of the result
  size2d dilation = 1;
};

namespace detail {

/// Returns an extent of the result minus the stride times the extent of the images.
constexpr std::int64_t transposed_excess(std::int64_t window, int stride, int dilation, int before, int after,
                                         int output_padding, bool same) {
  return same ? 0 : (window - 1) * dilation + 1 - stride - before - after + output_padding;
}
constexpr std::int64_t transposed_rows_excess(std::int64_t window, const conv2d_transpose_options& o) {
  return transposed_excess(window, o.stride.height, o.dilation.height, o.pad.top, o.pad.bottom, o.output_padding.height,
                           o.pad.by_result);
}
constexpr std::int64_t transposed_columns_excess(std::int64_t window, const conv2d_transpose_options& o) {
  return transposed_excess(window, o.stride.width, o.dilation.width, o.pad.left, o.pad.right, o.output_padding.width,
                           o.pad.by_result);
}

template <auto Extent, int Stride, std::int64_t Excess>
constexpr auto transposed_extent() {
  if constexpr (!is_dynamic(Extent))
    return canonical<code(Extent) * Stride + Excess>();
  else if constexpr (Stride == 1)
    return longer<Excess>(Extent);
  else
    return longer<Excess>(Extent * extent<Stride>);
}

constexpr bool sensible(const conv2d_transpose_options& o) {
  const auto fits = [&](int more, int stride) { return more >= 0 && more < stride && !(o.pad.by_result && more > 0); };
  return sensible(window_options{o.stride, o.pad, o.dilation}) && fits(o.output_padding.height, o.stride.height) &&
         fits(o.output_padding.width, o.stride.width);
}

constexpr bool transpose_has_elements(const shape& images, const shape& filters, const conv2d_transpose_options& o) {
  if (images.rank != 4 || filters.rank != 4 || !sensible(o) || !window_is_known(filters)) return true;
  return filters[0] > 0 && filters[1] > 0 &&
         (images[1] < 0 || images[1] * o.stride.height + transposed_rows_excess(filters[0], o) > 0) &&
         (images[2] < 0 || images[2] * o.stride.width + transposed_columns_excess(filters[1], o) > 0);
}

}  // namespace detail

/// The last extent of the filters must be the channels of the images: filters are [height, width, out, in].
template <class Images, class Filters>
struct conv2d_transpose_channels_differ
    : mistake<(Images::rank == 4 && Filters::rank == 4 && Images::spec[3] != Filters::spec[3])> {};

/// Strides and dilations must be at least 1, paddings at least 0, and output paddings less than the stride, and 0 with
/// padding::same.
template <conv2d_transpose_options Options>
struct conv2d_transpose_options_out_of_range : mistake<!detail::sensible(Options)> {};

/// The padding leaves no elements in the result.
template <class Images, class Filters, conv2d_transpose_options Options>
struct conv2d_transpose_result_is_empty
    : mistake<!detail::transpose_has_elements(Images::spec, Filters::spec, Options)> {};

/// The first mistake in the extents of a transposed convolution, if any.
template <class Images, class Filters, conv2d_transpose_options Options>
using conv2d_transpose_mistake =
    first_mistake<images_are_not_of_rank_4<Images>, filters_are_not_of_rank_4<Filters>,
                  conv2d_transpose_channels_differ<Images, Filters>, conv2d_transpose_options_out_of_range<Options>,
                  filter_extents_are_dynamic<Filters>, conv2d_transpose_result_is_empty<Images, Filters, Options>>;

namespace detail {

template <class Images, class Filters, conv2d_transpose_options O>
using conv2d_transpose_result = dims<
    extent_at<Images, 0>::value,
    transposed_extent<extent_at<Images, 1>::value, O.stride.height, transposed_rows_excess(Filters::spec[0], O)>(),
    transposed_extent<extent_at<Images, 2>::value, O.stride.width, transposed_columns_excess(Filters::spec[1], O)>(),
    extent_at<Filters, 2>::value>;

/// The attributes, with all paddings as numbers. The result of padding::same is a multiple of the stride, so its
/// padding is the excess of the window over the stride.
constexpr window_attributes transposed_windows(const conv2d_transpose_options& o, std::int64_t height,
                                               std::int64_t width) {
  padding pad = o.pad;
  if (pad.by_result) {
    const auto excess = [](std::int64_t window, int dilation, int stride) {
      const std::int64_t all = (window - 1) * dilation + 1 - stride;
      return all > 0 ? static_cast<int>(all) : 0;
    };
    const int rows = excess(height, o.dilation.height, o.stride.height),
              columns = excess(width, o.dilation.width, o.stride.width);
    pad = padding::of(rows / 2, rows - rows / 2, columns / 2, columns - columns / 2);
  }
  return {o.stride.height, o.stride.width, o.dilation.height, o.dilation.width,
          pad.top,         pad.bottom,     pad.left,          pad.right};
}

/// Returns the extent of the result along one axis, or 0 if that of the images is a name: types tell the extents then.
constexpr std::int64_t enlarged(std::int64_t extent, std::int64_t stride, std::int64_t excess) {
  return extent < 0 ? 0 : extent * stride + excess;
}

/// Calls a transposed convolution whose result has these extents over tensors.
template <class D, class X, class Filters>
auto call_transpose(const shape& to, const window_attributes& windows, const X& x, const Filters& w) {
  using T = value_t<X>;
  if constexpr (X::symbolic || Filters::symbolic) gpu::compile_kernels<convolution_op, T>();
  return call_operation<convolution_input_gradient_op<T>, T, D>(to, windows, w, x);
}

}  // namespace detail

/// The transpose of conv2d, which enlarges images by the stride: images `[batch, height, width, in]` and filters
/// `[height, width, out, in]` yield ``[batch, height', width', out]`` (tf.nn.conv2d_transpose,
/// torch.nn.functional.conv_transpose2d):
///
///     conv2d_transpose<conv2d_transpose_options{.stride = 2}>(images, filters)  // twice the height and width
///
/// With `padding::same`, the result's height is `height * stride`. Otherwise it is
/// `(height - 1) * stride + (window - 1) * dilation + 1 - top - bottom + output_padding`. Each output padding is less
/// than the stride, and 0 with `padding::same`. Elements are float, double, half or bfloat16; half and bfloat16 are
/// summed in float and rounded once. Throws invalid_argument if run-time extents do not fit.
template <conv2d_transpose_options Options = conv2d_transpose_options{}, Expression A, Expression B>
[[nodiscard]] auto conv2d_transpose(const A& images, const B& filters) {
  using T = value_t<A>;
  using mistaken = first_mistake<conv2d_transpose_mistake<dims_t<A>, dims_t<B>, Options>,
                                 element_types_differ<T, value_t<B>>, conv2d_undefined_for<T>>;
  static_assert(correct<mistaken>,
                "conv2d_transpose: needs images [batch, height, width, in] and filters [height, width, out, in] of one "
                "floating-point type, and options that fit them");
  return detail::unless<mistaken>(images, filters, []<class X, class Filters>(const X& x, const Filters& w) {
    const shape from = extents_of(x), window = extents_of(w);
    return detail::call_transpose<detail::conv2d_transpose_result<dims_t<X>, dims_t<Filters>, Options>>(
        shape(from[0],
              detail::enlarged(from[1], Options.stride.height, detail::transposed_rows_excess(window[0], Options)),
              detail::enlarged(from[2], Options.stride.width, detail::transposed_columns_excess(window[1], Options)),
              window[2]),
        detail::transposed_windows(Options, window[0], window[1]), x, w);
  });
}

template <auto...>
auto conv2d_transpose(...) WEFT_DELETED;  // options in brackets: conv2d_transpose<conv2d_transpose_options{}>(x, w)

}  // namespace weft
