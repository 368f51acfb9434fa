// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/convolution.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/images/window.hpp>
#include <weft/ops/lowering.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// The options of a convolution: the filter moves by `stride` over images padded by `pad`, and its elements are
/// `dilation` pixels apart.
struct conv2d_options {
  size2d stride = 1;
  padding pad = padding::same;
  size2d dilation = 1;
};

/// Convolves images `[batch, height, width, channels]` with filters `[height, width, channels, filters]`, without
/// reversing the filters, as is usual in deep learning (tf.nn.conv2d). The result is ``[batch, height', width',
/// filters]``; `Options` contains stride, padding and dilation:
///
///     conv2d(images, filters)  // stride 1, the same height and width
///     conv2d<conv2d_options{.stride = 2, .pad = padding::valid}>(images, filters)
///
/// Elementwise operations on the result, as in `relu(conv2d(x, w) + b)`, run in the same kernel. Convolutions of half
/// and bfloat16 are summed in float and rounded once, before any elementwise operation; so are their gradients.
template <conv2d_options Options = conv2d_options{}, Expression A, Expression B>
[[nodiscard]] auto conv2d(const A& images, const B& filters);

namespace detail {

constexpr window_options windows_of(const conv2d_options& o) { return {o.stride, o.pad, o.dilation}; }

/// Returns the extents of a call. `images` are [batch, height, width, channels] and `filters` are [height, width,
/// channels, filters]; sequences have no height (ops/images/conv1d.hpp).
inline convolution_shape convolution_of(const window_attributes& a, const shape& images, const shape& filters,
                                        const shape& result) {
  if (images.rank == 3)
    return convolution_of(a, shape(images[0], 1, images[1], images[2]), shape(1, filters[0], filters[1], filters[2]),
                          shape(result[0], 1, result[1], result[2]));
  const convolution_shape s = convolution_of(a, images, filters[0], filters[1], result);
  if (images[3] != filters[2] || result[3] != filters[3] || result[0] != images[0] || !windows_fit(s))
    throw error(error_code::invalid_argument, "conv2d",
                {"images of extents ", to_string(images), ", filters of ", to_string(filters), " and a result of ",
                 to_string(result),
                 " do not fit together: images must be [batch, height, width, channels], filters [height, width, "
                 "channels, filters], and no filter larger than the padded image"});
  return s;
}

}  // namespace detail

// A convolution is linear in each operand, and so are its gradients: the gradients of each of the three are the other
// two.

/// Inputs: images, filters; output: the result.
template <class T>
struct convolution_op {
  static constexpr const char* name = "conv2d";
  static constexpr fusion_kind fusion = fusion_kind::product;
  using attributes = detail::window_attributes;

  static kernel* prepare_fused(const prepare_context& p, const attributes& a, const product_fusion& f) {
    return device::make_convolution<T>(
        detail::convolution_of(a, p.inputs[0].extents, p.inputs[1].extents, p.outputs[0].extents), p.input_slots[0],
        p.input_slots[1], f.result, f.epilogue_on_cpu(), p.version_of(1));
  }
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return prepare_fused(p, a, {p.output_slots[0]});
  }
  static void gradient(gradient_context&, const attributes&);
  static double multiply_adds(const shape&, const shape& filters, const shape& result) {
    double sum = static_cast<double>(result.elements());
    for (std::size_t i = 0; i + 1 < filters.rank; ++i) sum *= static_cast<double>(filters[i]);
    return sum;
  }
};

/// Inputs: filters and the result's gradient. Output: the gradient of the images (tf.raw_ops.Conv2DBackpropInput).
template <class T>
struct convolution_input_gradient_op {
  static constexpr const char* name = "conv2d_input_gradient";
  static constexpr bool skips_zeros = true;
  using attributes = detail::window_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return device::make_convolution_input_gradient<T>(
        detail::convolution_of(a, p.outputs[0].extents, p.inputs[0].extents, p.inputs[1].extents), p.input_slots[0],
        p.input_slots[1], p.output_slots[0], p.zeros_arrive, p.version_of(0));
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Inputs: images and the result's gradient. Output: the gradient of the filters (tf.raw_ops.Conv2DBackpropFilter).
template <class T>
struct convolution_filter_gradient_op {
  static constexpr const char* name = "conv2d_filter_gradient";
  static constexpr bool skips_zeros = true;
  using attributes = detail::window_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return device::make_convolution_filter_gradient<T>(
        detail::convolution_of(a, p.inputs[0].extents, p.outputs[0].extents, p.inputs[1].extents), p.input_slots[0],
        p.input_slots[1], p.output_slots[0], p.zeros_arrive);
  }
  static void gradient(gradient_context&, const attributes&);
};

namespace detail {

/// Records a call with two operands. The result has the extents of `like`, the value whose gradient it is.
inline symbol record_convolution(const operation& op, const window_attributes& a, symbol x, symbol y, symbol like) {
  return record_call(op, {x, y}, {x.type(), like.extents()}, words_of(a));
}

}  // namespace detail

template <class T>
void convolution_op<T>::gradient(gradient_context& g, const attributes& a) {
  const symbol images = g.input(0), filters = g.input(1), up = g.upstream();
  if (g.needs_gradient(0))
    g.set_gradient(0,
                   detail::record_convolution(operation_of<convolution_input_gradient_op<T>>, a, filters, up, images));
  if (g.needs_gradient(1))
    g.set_gradient(1,
                   detail::record_convolution(operation_of<convolution_filter_gradient_op<T>>, a, images, up, filters));
}
template <class T>
void convolution_input_gradient_op<T>::gradient(gradient_context& g, const attributes& a) {
  const symbol filters = g.input(0), dy = g.input(1), up = g.upstream();
  if (g.needs_gradient(0))
    g.set_gradient(0, detail::record_convolution(operation_of<convolution_filter_gradient_op<T>>, a, up, dy, filters));
  if (g.needs_gradient(1))
    g.set_gradient(1, detail::record_convolution(operation_of<convolution_op<T>>, a, up, filters, dy));
}
template <class T>
void convolution_filter_gradient_op<T>::gradient(gradient_context& g, const attributes& a) {
  const symbol images = g.input(0), dy = g.input(1), up = g.upstream();
  if (g.needs_gradient(0))
    g.set_gradient(0, detail::record_convolution(operation_of<convolution_input_gradient_op<T>>, a, up, dy, images));
  if (g.needs_gradient(1))
    g.set_gradient(1, detail::record_convolution(operation_of<convolution_op<T>>, a, images, up, dy));
}

namespace detail {

WEFT_INSTANTIATE(kernel* prepare_declared<convolution_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_fused_declared<convolution_op<float>>(const prepare_context&, const product_fusion&));
WEFT_INSTANTIATE(kernel* prepare_declared<convolution_input_gradient_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<convolution_filter_gradient_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(void gradient_of_declared<convolution_op<float>>(gradient_context&));
WEFT_INSTANTIATE(void gradient_of_declared<convolution_input_gradient_op<float>>(gradient_context&));
WEFT_INSTANTIATE(void gradient_of_declared<convolution_filter_gradient_op<float>>(gradient_context&));

constexpr bool channels_fit(const shape& images, const shape& filters) {
  return images.rank != 4 || filters.rank != 4 || images[3] == filters[2];
}

constexpr bool window_is_known(const shape& filters) {
  return filters.rank != 4 || (filters[0] >= 0 && filters[1] >= 0);
}

constexpr bool filter_fits(const shape& images, const shape& filters, const window_options& o) {
  return images.rank != 4 || filters.rank != 4 || !sensible(o) || !window_is_known(filters) ||
         (filters[0] > 0 && filters[1] > 0 && has_windows(images, filters[0], filters[1], o));
}

}  // namespace detail

/// Filters must be of rank 4: height, width, channels of the images, filters.
template <class Filters>
struct filters_are_not_of_rank_4 : mistake<Filters::rank != 4> {};

/// The channels of the filters (the third extent) differ from the channels of the images (the fourth extent).
template <class Images, class Filters>
struct conv2d_channels_differ : mistake<!detail::channels_fit(Images::spec, Filters::spec)> {};

/// The filter is larger than the padded image.
template <class Images, class Filters, conv2d_options Options>
struct filter_is_larger_than_image
    : mistake<!detail::filter_fits(Images::spec, Filters::spec, detail::windows_of(Options))> {};

/// Filters must have a static height and width; images may have dynamic ones.
template <class Filters>
struct filter_extents_are_dynamic : mistake<!detail::window_is_known(Filters::spec)> {};

/// Strides and dilations must be at least 1, and paddings at least 0.
template <conv2d_options Options>
struct conv2d_options_out_of_range : mistake<!detail::sensible(detail::windows_of(Options))> {};

/// Convolutions are defined for float, double, half and bfloat16.
template <class T>
struct conv2d_undefined_for : mistake<!is_differentiable<T>> {};

/// The first mistake in the extents of a convolution, if any.
template <class Images, class Filters, conv2d_options Options>
using conv2d_mistake =
    first_mistake<images_are_not_of_rank_4<Images>, filters_are_not_of_rank_4<Filters>,
                  conv2d_channels_differ<Images, Filters>, conv2d_options_out_of_range<Options>,
                  filter_extents_are_dynamic<Filters>, filter_is_larger_than_image<Images, Filters, Options>>;

/// True if the extents of `conv2d<Options>(images, filters)` fit.
template <class Images, class Filters, conv2d_options Options = conv2d_options{}>
concept Convolvable = correct<conv2d_mistake<Images, Filters, Options>>;

namespace detail {

template <class Images, class Filters, conv2d_options Options>
struct conv2d_result {
  using windows = typename numbers_of<windows_of(Options)>::type;
  using type =
      dims<extent_at<Images, 0>::value, windows::template rows<extent_at<Images, 1>::value, Filters::spec[0]>(),
           windows::template columns<extent_at<Images, 2>::value, Filters::spec[1]>(), extent_at<Filters, 3>::value>;
};

}  // namespace detail

template <conv2d_options Options, Expression A, Expression B>
auto conv2d(const A& images, const B& filters) {
  using T = value_t<A>;
  using DA = dims_t<A>;
  using DB = dims_t<B>;
  using mistaken = conv2d_mistake<DA, DB, Options>;
  static_assert(correct<mistaken>, "conv2d: the extents of images, filters and options do not fit");
  static_assert(correct<element_types_differ<T, value_t<B>>>, "conv2d: the element types differ: use cast<T>(x)");
  static_assert(correct<conv2d_undefined_for<T>>,
                "conv2d: the elements must be float, double, half or bfloat16: use cast<float>(x)");
  if constexpr (mistaken::value || element_types_differ<T, value_t<B>>::value || conv2d_undefined_for<T>::value) {
    return detail::after_mistake<T, DA>(images, filters);
  } else {
    if constexpr (A::symbolic || B::symbolic) gpu::compile_kernels<convolution_op, T>();
    using D = typename detail::conv2d_result<DA, DB, Options>::type;
    const auto x = materialize(images);
    const auto w = materialize(filters);
    const shape window = extents_of(w);
    const detail::window_call call =
        detail::call_windows(extents_of(x), window[0], window[1], window[3], detail::windows_of(Options));
    return call_operation<convolution_op<T>, T, D>(call.result, call.attributes, x, w);
  }
}

}  // namespace weft

WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/convolution.hpp>
#endif
