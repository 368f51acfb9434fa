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

/// Returns the extents of a call, whose operands and result are images, filters or a result.
template <convolution_kind Kind, class Attributes>
convolution_shape shape_of_call(const prepare_context& p, const Attributes& a) {
  const shape &first = p.inputs[0].extents, &second = p.inputs[1].extents, &out = p.outputs[0].extents;
  if constexpr (Kind == convolution_kind::forward) return convolution_of(a, first, second, out);
  if constexpr (Kind == convolution_kind::input_gradient) return convolution_of(a, out, first, second);
  return convolution_of(a, first, out, second);
}

/// The base of convolutions and of their gradients. Operands: images and filters; filters and the result's gradient,
/// for the gradient of the images (tf.raw_ops.Conv2DBackpropInput); or images and the result's gradient, for the
/// gradient of the filters (tf.raw_ops.Conv2DBackpropFilter). A convolution is linear in each operand, and so are its
/// gradients: the gradients of each of the three are the other two.
template <template <class, convolution_kind> class Op, class T, convolution_kind Kind, class Attributes>
struct convolution_base {
  using element = T;
  using attributes = Attributes;
  template <class U>
  using forward_op = Op<U, convolution_kind::forward>;
  static constexpr convolution_kind kind = Kind;
  static constexpr bool is_forward = Kind == convolution_kind::forward;
  static constexpr fusion_kind fusion = is_forward ? fusion_kind::product : fusion_kind::none;

  static constexpr const char* onnx_of(convolution_kind k) {
    using enum convolution_kind;
    return k == forward ? "convolution()" : k == input_gradient ? "transposed_convolution()" : nullptr;
  }
  static kernel* prepare_fused(const prepare_context& p, const Attributes& a, const product_fusion& f) {
    return Op<T, Kind>::make(p, shape_of_call<Kind>(p, a), f);
  }
  static kernel* prepare(const prepare_context& p, const Attributes& a) {
    return prepare_fused(p, a, {p.output_slots[0]});
  }
  static void gradient(gradient_context& g, const Attributes& a) {
    using enum convolution_kind;
    const symbol x = g.input(0), y = g.input(1), up = g.upstream();
    const auto set = [&]<convolution_kind K>(std::size_t operand, symbol first, symbol second) {
      g.set_gradient(operand, record<Op<T, K>>({first, second}, g.input(operand).info(), a));
    };
    if (g.needs_gradient(0))
      set.template operator()<Kind == input_gradient ? filter_gradient : input_gradient>(0, is_forward ? y : up,
                                                                                         is_forward ? up : y);
    if (g.needs_gradient(1))
      set.template operator()<is_forward ? filter_gradient : forward>(1, Kind == input_gradient ? up : x,
                                                                      Kind == input_gradient ? x : up);
  }
};

}  // namespace detail

/// A convolution or one of its gradients.
template <class T, convolution_kind Kind>
struct convolution_operation : detail::convolution_base<convolution_operation, T, Kind, detail::window_attributes> {
  using base = detail::convolution_base<weft::convolution_operation, T, Kind, detail::window_attributes>;
  static constexpr const char* name = base::is_forward                           ? "conv2d"
                                      : Kind == convolution_kind::input_gradient ? "conv2d_input_gradient"
                                                                                 : "conv2d_filter_gradient";
  static constexpr const char* onnx = base::onnx_of(Kind);
  static constexpr bool skips_zeros = !base::is_forward;

  static kernel* make(const prepare_context& p, const convolution_shape& s, const product_fusion& f) {
    using enum convolution_kind;
    return device::make_convolution<T>(Kind, s, p.input_slots[0], p.input_slots[1], f.result,
                                       !base::is_forward && p.zeros_arrive, f.epilogue_on_cpu(),
                                       Kind == filter_gradient ? nullptr : p.version_of(Kind == forward ? 1 : 0));
  }
  static double multiply_adds(const shape&, const shape& filters, const shape& result) {
    double sum = base::is_forward ? static_cast<double>(result.elements()) : 0;
    for (std::size_t i = 0; i + 1 < filters.rank; ++i) sum *= static_cast<double>(filters[i]);
    return sum;
  }
};
/// A convolution.
template <class T>
using convolution_op = convolution_operation<T, convolution_kind::forward>;
/// The gradient of the images, and the operation of transposed convolutions.
template <class T>
using convolution_input_gradient_op = convolution_operation<T, convolution_kind::input_gradient>;
/// The gradient of the filters.
template <class T>
using convolution_filter_gradient_op = convolution_operation<T, convolution_kind::filter_gradient>;

namespace detail {

WEFT_INSTANTIATE(kernel* prepare_declared<convolution_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_fused_declared<convolution_op<float>>(const prepare_context&, const product_fusion&));
WEFT_INSTANTIATE(kernel* prepare_declared<convolution_input_gradient_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<convolution_filter_gradient_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(void gradient_of_declared<convolution_op<float>>(gradient_context&));
WEFT_INSTANTIATE(void gradient_of_declared<convolution_input_gradient_op<float>>(gradient_context&));
WEFT_INSTANTIATE(void gradient_of_declared<convolution_filter_gradient_op<float>>(gradient_context&));

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
struct conv2d_channels_differ
    : mistake<(Images::rank == 4 && Filters::rank == 4 && Images::spec[3] != Filters::spec[2])> {};

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

/// The first mistake in the extents of a convolution whose channels may have the mistake `Channels`, if any.
template <class Images, class Filters, conv2d_options Options, class Channels>
using convolution_mistake =
    first_mistake<images_are_not_of_rank_4<Images>, filters_are_not_of_rank_4<Filters>, Channels,
                  conv2d_options_out_of_range<Options>, filter_extents_are_dynamic<Filters>,
                  filter_is_larger_than_image<Images, Filters, Options>>;
/// The first mistake in the extents of a convolution, if any.
template <class Images, class Filters, conv2d_options Options>
using conv2d_mistake = convolution_mistake<Images, Filters, Options, conv2d_channels_differ<Images, Filters>>;

/// True if the extents of `conv2d<Options>(images, filters)` fit.
template <class Images, class Filters, conv2d_options Options = conv2d_options{}>
concept Convolvable = correct<conv2d_mistake<Images, Filters, Options>>;

namespace detail {

template <class Images, class Filters, conv2d_options Options>
using conv2d_result = windowed<Images, typename numbers_of<windows_of(Options)>::type, Filters::spec[0],
                               Filters::spec[1], extent_at<Filters, 3>::value>;

template <template <class> class Op, class D, class X, class Filters, class... More>
auto call_convolution(const X& x, const Filters& w, std::int64_t filters, const window_options& o, More... more) {
  using T = value_t<X>;
  if constexpr (X::symbolic || Filters::symbolic) gpu::compile_kernels<Op, T>();
  const shape window = extents_of(w);
  const window_call call = call_windows(extents_of(x), window[0], window[1], filters, o);
  return call_operation<Op<T>, T, D>(call.result, {call.attributes, more...}, x, w);
}
/// Calls a convolution whose results have the extents of conv2d's.
template <template <class> class Op, conv2d_options Options, class X, class Filters, class... More>
auto convolve(const X& x, const Filters& w, More... more) {
  using D = conv2d_result<dims_t<X>, dims_t<Filters>, Options>;
  return call_convolution<Op, D>(x, w, extents_of(w)[3], windows_of(Options), more...);
}

}  // namespace detail

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
[[nodiscard]] auto conv2d(const A& images, const B& filters) {
  using T = value_t<A>;
  using DA = dims_t<A>;
  using DB = dims_t<B>;
  using mistaken = conv2d_mistake<DA, DB, Options>;
  static_assert(correct<mistaken>, "conv2d: the extents of images, filters and options do not fit");
  static_assert(correct<element_types_differ<T, value_t<B>>>, "conv2d: the element types differ: use cast<T>(x)");
  static_assert(correct<conv2d_undefined_for<T>>,
                "conv2d: the elements must be float, double, half or bfloat16: use cast<float>(x)");
  if constexpr (correct<first_mistake<mistaken, element_types_differ<T, value_t<B>>, conv2d_undefined_for<T>>>)
    return detail::convolve<convolution_op, Options>(materialize(images), materialize(filters));
  else
    return detail::after_mistake<T, DA>(images, filters);
}

}  // namespace weft

WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/convolution.hpp>
#endif
