// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/conv1d.hpp>
#include <weft/ops/images/conv2d_transpose.hpp>

/// One-dimensional transposed convolutions. Not part of <weft/weft.hpp>.
namespace weft {

/// The options of conv1d_transpose. Stride, padding and dilation are the options of the transposed convolution, as in
/// conv1d_options.
struct conv1d_transpose_options {
  int stride = 1;
  padding pad = padding::same;
  int output_padding = 0;  ///< steps added at the end of the result
  int dilation = 1;
};

namespace detail {

constexpr conv2d_transpose_options of_one_row(const conv1d_transpose_options& o) {
  return {{1, o.stride}, {o.pad.by_result, 0, 0, o.pad.left, o.pad.right}, {0, o.output_padding}, {1, o.dilation}};
}

template <class X, class Filters, conv1d_transpose_options Options>
struct find_conv1d_transpose_mistake {
  static constexpr conv2d_transpose_options options = of_one_row(Options);  // see conv1d_result
  using type = first_mistake<sequences_are_not_of_rank_3<X>, filters_are_not_of_rank_3<Filters>,
                             conv2d_transpose_mistake<as_row<X>, as_filter_row<Filters>, options>>;
};

template <class X, class Filters, conv1d_transpose_options Options>
struct conv1d_transpose_result {
  static constexpr conv2d_transpose_options options = of_one_row(Options);
  using row = conv2d_transpose_result<as_row<X>, as_filter_row<Filters>, options>;
  using type = dims<extent_at<row, 0>::value, extent_at<row, 2>::value, extent_at<row, 3>::value>;
};

}  // namespace detail

/// The first mistake in the extents of a one-dimensional transposed convolution, if any.
template <class X, class Filters, conv1d_transpose_options Options>
using conv1d_transpose_mistake = typename detail::find_conv1d_transpose_mistake<X, Filters, Options>::type;

/// The transpose of conv1d, which lengthens sequences by the stride: sequences `[batch, length, in]` and filters
/// `[window, out, in]` yield `[batch, longer, out]` (tf.nn.conv1d_transpose, torch.nn.functional.conv_transpose1d).
/// With `padding::same`, the result has `length * stride` steps; otherwise `(length - 1) * stride + reach - before -
/// after + output_padding`, where reach is `(window - 1) * dilation + 1`. Equals conv2d_transpose of images with one
/// row; for elements and errors, see there.
template <conv1d_transpose_options Options = conv1d_transpose_options{}, Expression A, Expression B>
[[nodiscard]] auto conv1d_transpose(const A& x, const B& filters) {
  using T = value_t<A>;
  using mistaken = first_mistake<conv1d_transpose_mistake<dims_t<A>, dims_t<B>, Options>,
                                 element_types_differ<T, value_t<B>>, conv2d_undefined_for<T>>;
  static_assert(correct<mistaken>,
                "conv1d_transpose: needs sequences [batch, length, in] and filters [window, out, in] of one "
                "floating-point type, and options that fit them");
  return detail::unless<mistaken>(x, filters, []<class X, class Filters>(const X& sequences, const Filters& w) {
    using result = detail::conv1d_transpose_result<dims_t<X>, dims_t<Filters>, Options>;
    const shape from = extents_of(sequences), window = extents_of(w);
    return detail::call_transpose<typename result::type>(
        shape(from[0],
              detail::enlarged(from[1], Options.stride, detail::transposed_columns_excess(window[0], result::options)),
              window[1]),
        detail::transposed_windows(result::options, 1, window[0]), sequences, w);
  });
}

template <auto...>
auto conv1d_transpose(...) WEFT_DELETED;  // options in brackets: conv1d_transpose<conv1d_transpose_options{}>(x, w)

}  // namespace weft
