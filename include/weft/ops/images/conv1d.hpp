// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/images/convolution.hpp>

/// One-dimensional convolutions. Not part of <weft/weft.hpp>.
namespace weft {

/// The options of conv1d. `padding::of(n)` pads n steps on both ends; `padding::of(0, 0, left, right)` pads `left`
/// steps in front and `right` steps at the end, so `padding::of(0, 0, (window - 1) * dilation, 0)` is causal.
struct conv1d_options {
  int stride = 1;
  padding pad = padding::same;
  int dilation = 1;
};

/// Filters of conv1d must be of rank 3: length of the window, channels of the sequences, filters.
template <class Filters>
struct filters_are_not_of_rank_3 : mistake<Filters::rank != 3> {};

namespace detail {

constexpr conv2d_options of_one_row(const conv1d_options& o) {
  return {{1, o.stride}, {o.pad.by_result, 0, 0, o.pad.left, o.pad.right}, {1, o.dilation}};
}

/// Sequences `[batch, length, channels]`, or filters `[window, in, out]`, as images or filters of one row. Other ranks
/// stay unchanged, and the convolution reports them.
template <std::size_t Axis, class Dims>
constexpr auto with_row() {
  if constexpr (Dims::rank != 3)
    return Dims();
  else if constexpr (Axis == 0)
    return dims<1, extent_at<Dims, 0>::value, extent_at<Dims, 1>::value, extent_at<Dims, 2>::value>();
  else
    return dims<extent_at<Dims, 0>::value, 1, extent_at<Dims, 1>::value, extent_at<Dims, 2>::value>();
}
template <class Dims>
using as_row = decltype(with_row<1, Dims>());
template <class Filters>
using as_filter_row = decltype(with_row<0, Filters>());

/// The extents of the result of a one-dimensional convolution.
template <class X, class Filters, conv1d_options Options>
struct conv1d_result {
  static constexpr conv2d_options options = of_one_row(Options);  // g++ 12 rejects this call as a template argument
  using row = conv2d_result<as_row<X>, as_filter_row<Filters>, options>;
  using type = dims<extent_at<row, 0>::value, extent_at<row, 2>::value, extent_at<row, 3>::value>;
};

template <class X, class Filters, conv1d_options Options>
struct find_conv1d_mistake {
  static constexpr conv2d_options options = of_one_row(Options);
  using type = first_mistake<sequences_are_not_of_rank_3<X>, filters_are_not_of_rank_3<Filters>,
                             conv2d_mistake<as_row<X>, as_filter_row<Filters>, options>>;
};

}  // namespace detail

/// The first mistake in the extents of a one-dimensional convolution, if any.
template <class X, class Filters, conv1d_options Options>
using conv1d_mistake = typename detail::find_conv1d_mistake<X, Filters, Options>::type;

/// Convolves sequences `[batch, length, in]` with filters `[window, in, out]` into ``[batch, length', out]``
/// (tf.nn.conv1d). Equals conv2d with images of one row. Elementwise operations on the result, as in
/// `relu(conv1d(x, w) + b)`, run in the same kernel.
template <conv1d_options Options = conv1d_options{}, Expression A, Expression B>
[[nodiscard]] auto conv1d(const A& x, const B& filters) {
  using T = value_t<A>;
  using mistaken = first_mistake<conv1d_mistake<dims_t<A>, dims_t<B>, Options>, element_types_differ<T, value_t<B>>,
                                 conv2d_undefined_for<T>>;
  static_assert(correct<mistaken>,
                "conv1d: needs sequences [batch, length, in] and filters [window, in, out] of one floating-point type, "
                "and options that fit them");
  return detail::unless<mistaken>(x, filters, []<class X, class Filters>(const X& sequences, const Filters& w) {
    using result = detail::conv1d_result<dims_t<X>, dims_t<Filters>, Options>;
    if constexpr (X::symbolic || Filters::symbolic) gpu::compile_kernels<convolution_op, T>();
    const shape from = extents_of(sequences), window = extents_of(w);
    const detail::window_call call = detail::call_windows(shape(from[0], 1, from[1], from[2]), 1, window[0], window[2],
                                                          detail::windows_of(result::options));
    return call_operation<convolution_op<T>, T, typename result::type>(
        shape(call.result[0], call.result[2], call.result[3]), call.attributes, sequences, w);
  });
}

template <auto...>
auto conv1d(...) WEFT_DELETED;  // options are in brackets: conv1d<conv1d_options{.stride = 2}>(x, filters)

}  // namespace weft
