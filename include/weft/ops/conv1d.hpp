#pragma once

#include <weft/ops/convolution.hpp>
#include <weft/ops/expand_dims.hpp>

/// Convolutions of sequences. Included by name, not by <weft/weft.hpp>.
namespace weft {

/// The options of conv1d. `padding::of(n)` is n steps on both ends; of `padding::of(0, 0, left, right)`, left and right
/// are the steps before and behind, so that `padding::of(0, 0, (window - 1) * dilation, 0)` is causal.
struct conv1d_options {
  int stride = 1;
  padding pad = padding::same;
  int dilation = 1;
};

/// The convolution of sequences `[batch, length, in]` with filters `[window, in, out]`, `[batch, length', out]`
/// (tf.nn.conv1d): conv2d of one row, whose rules hold. What is added to the result runs in a kernel of its own; the
/// layer nn::conv1d runs bias and activation in that of the convolution.
template <conv1d_options Options = conv1d_options{}, Expression A, Expression B>
[[nodiscard]] auto conv1d(const A& x, const B& filters);

/// Sequences are of rank 3: batch, length, channels.
template <class Dims>
struct sequences_are_not_of_rank_3 : mistake<Dims::rank != 3> {};

/// Filters of sequences are of rank 3: length of the window, channels of the sequences, filters.
template <class Filters>
struct filters_are_not_of_rank_3 : mistake<Filters::rank != 3> {};

namespace detail {

constexpr conv2d_options of_one_row(const conv1d_options& o) {
  return {{1, o.stride}, {o.pad.by_result, 0, 0, o.pad.left, o.pad.right}, {1, o.dilation}};
}

/// Sequences as images of one row; of others, something of which a convolution says what is wrong.
template <class Dims>
struct as_row {
  using type = Dims;
};
template <auto A, auto B, auto C>
struct as_row<dims<A, B, C>> {
  using type = dims<A, 1, B, C>;
};
template <class Filters>
struct as_filter_row {
  using type = Filters;
};
template <auto A, auto B, auto C>
struct as_filter_row<dims<A, B, C>> {
  using type = dims<1, A, B, C>;
};

template <class X, class Filters, conv1d_options Options>
struct find_conv1d_mistake {
  static constexpr conv2d_options options = of_one_row(Options);  // g++ 12 fails on the call among the arguments
  using type = first_mistake<sequences_are_not_of_rank_3<X>, filters_are_not_of_rank_3<Filters>,
                             conv2d_mistake<typename as_row<X>::type, typename as_filter_row<Filters>::type, options>>;
};

}  // namespace detail

/// The mistake in the extents of a convolution of sequences, if there is one.
template <class X, class Filters, conv1d_options Options>
using conv1d_mistake = typename detail::find_conv1d_mistake<X, Filters, Options>::type;

template <conv1d_options Options, Expression A, Expression B>
auto conv1d(const A& x, const B& filters) {
  using T = value_t<A>;
  using mistaken = first_mistake<conv1d_mistake<dims_t<A>, dims_t<B>, Options>, element_types_differ<T, value_t<B>>,
                                 conv2d_undefined_for<T>>;
  static_assert(correct<mistaken>,
                "conv1d: needs sequences [batch, length, in] and filters [window, in, out] of one floating-point type, "
                "and options that fit them");
  if constexpr (correct<mistaken>)
    return squeeze<1>(conv2d<detail::of_one_row(Options)>(expand_dims<1>(x), expand_dims<0>(filters)));
  else
    return detail::after_mistake<T, dims_t<A>>(x, filters);
}

template <auto...>
auto conv1d(...) WEFT_DELETED;  // options are in brackets: conv1d<conv1d_options{.stride = 2}>(x, filters)

}  // namespace weft
