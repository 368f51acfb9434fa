#pragma once

#include <weft/device/cpu/depthwise_convolution.hpp>
#include <weft/ops/convolution.hpp>

/// Depthwise convolutions. Included by name, not by <weft/weft.hpp>.
namespace weft {

/// conv2d of each channel with filters of its own: images `[batch, height, width, channels]` and filters `[height,
/// width, channels, multiplier]` yield `[batch, height', width', channels * multiplier]`, in which the results of a
/// channel lie next to each other (tf.nn.depthwise_conv2d). Options are those of conv2d. float or double; the extents
/// of the filters are known to the compiler. It has no GPU kernels. Throws invalid_argument where run-time extents do
/// not fit.
template <conv2d_options Options = conv2d_options{}, Expression A, Expression B>
[[nodiscard]] auto depthwise_conv2d(const A& images, const B& filters);

namespace detail {

constexpr bool depthwise_fits(const shape& images, const shape& filters) {
  return images.rank != 4 || filters.rank != 4 || (images[3] == filters[2] && filters[2] > 0 && filters[3] > 0);
}

}  // namespace detail

/// The filters have the channels of the images, and channels and multiplier are numbers that the compiler knows.
template <class Images, class Filters>
struct depthwise_channels_differ : mistake<!detail::depthwise_fits(Images::spec, Filters::spec)> {};

WEFT_COLD_BEGIN

namespace detail {

/// The extents of a call, all of them known.
inline convolution_shape depthwise_of(const window_attributes& a, const shape& images, const shape& filters,
                                      const shape& result) {
  const convolution_shape s = convolution_of(a, images, filters[0], filters[1], result);
  if (images[3] != filters[2] || result[3] != filters[2] * filters[3] || result[0] != images[0] || !windows_fit(s))
    throw error(error_code::invalid_argument, "depthwise_conv2d",
                {"images of extents ", to_string(images), ", filters of ", to_string(filters), " and a result of ",
                 to_string(result), " do not fit together"});
  return s;
}

}  // namespace detail

// As of convolutions: each operation is linear in both operands, and the three are each other's gradients.

/// Inputs: images, filters; output: the result.
template <class T>
struct depthwise_convolution_op {
  static constexpr const char* name = "depthwise_conv2d";
  using attributes = detail::window_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new device::depthwise_convolution_kernel<T, convolution_kind::forward>(
        detail::depthwise_of(a, p.inputs[0].extents, p.inputs[1].extents, p.outputs[0].extents), p.input_slots[0],
        p.input_slots[1], p.output_slots[0]);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Inputs: filters, the result's gradient; output: the gradient of the images.
template <class T>
struct depthwise_input_gradient_op {
  static constexpr const char* name = "depthwise_conv2d_input_gradient";
  using attributes = detail::window_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new device::depthwise_convolution_kernel<T, convolution_kind::input_gradient>(
        detail::depthwise_of(a, p.outputs[0].extents, p.inputs[0].extents, p.inputs[1].extents), p.input_slots[0],
        p.input_slots[1], p.output_slots[0]);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Inputs: images, the result's gradient; output: the gradient of the filters.
template <class T>
struct depthwise_filter_gradient_op {
  static constexpr const char* name = "depthwise_conv2d_filter_gradient";
  using attributes = detail::window_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new device::depthwise_convolution_kernel<T, convolution_kind::filter_gradient>(
        detail::depthwise_of(a, p.inputs[0].extents, p.outputs[0].extents, p.inputs[1].extents), p.input_slots[0],
        p.input_slots[1], p.output_slots[0]);
  }
  static void gradient(gradient_context&, const attributes&);
};

template <class T>
void depthwise_convolution_op<T>::gradient(gradient_context& g, const attributes& a) {
  const symbol images = g.input(0), filters = g.input(1), up = g.upstream();
  if (g.needs_gradient(0)) g.set_gradient(0, record<depthwise_input_gradient_op<T>>({filters, up}, images.info(), a));
  if (g.needs_gradient(1)) g.set_gradient(1, record<depthwise_filter_gradient_op<T>>({images, up}, filters.info(), a));
}
template <class T>
void depthwise_input_gradient_op<T>::gradient(gradient_context& g, const attributes& a) {
  const symbol filters = g.input(0), dy = g.input(1), up = g.upstream();
  if (g.needs_gradient(0)) g.set_gradient(0, record<depthwise_filter_gradient_op<T>>({up, dy}, filters.info(), a));
  if (g.needs_gradient(1)) g.set_gradient(1, record<depthwise_convolution_op<T>>({up, filters}, dy.info(), a));
}
template <class T>
void depthwise_filter_gradient_op<T>::gradient(gradient_context& g, const attributes& a) {
  const symbol images = g.input(0), dy = g.input(1), up = g.upstream();
  if (g.needs_gradient(0)) g.set_gradient(0, record<depthwise_input_gradient_op<T>>({up, dy}, images.info(), a));
  if (g.needs_gradient(1)) g.set_gradient(1, record<depthwise_convolution_op<T>>({images, up}, dy.info(), a));
}

WEFT_COLD_END

namespace detail {

template <class Images, class Filters, conv2d_options Options>
struct depthwise_result {
  static constexpr window_options options = windows_of(Options);
  using type = dims<extent_at<Images, 0>::value, rows_extent<extent_at<Images, 1>::value, Filters::spec[0], options>(),
                    columns_extent<extent_at<Images, 2>::value, Filters::spec[1], options>(),
                    static_cast<int>(Filters::spec[2] * Filters::spec[3])>;
};

}  // namespace detail

template <conv2d_options Options, Expression A, Expression B>
auto depthwise_conv2d(const A& images, const B& filters) {
  using T = value_t<A>;
  using DA = dims_t<A>;
  using DB = dims_t<B>;
  using mistaken =
      first_mistake<images_are_not_of_rank_4<DA>, filters_are_not_of_rank_4<DB>, depthwise_channels_differ<DA, DB>,
                    conv2d_options_out_of_range<Options>, filter_extents_are_dynamic<DB>,
                    filter_is_larger_than_image<DA, DB, Options>, element_types_differ<T, value_t<B>>, not_floating<T>>;
  static_assert(correct<mistaken>,
                "depthwise_conv2d: needs images [batch, height, width, channels] and filters [height, width, channels, "
                "multiplier], both float or both double, and options that fit them");
  if constexpr (!correct<mistaken>) {
    return detail::after_mistake<T, DA>(images, filters);
  } else {
    using D = typename detail::depthwise_result<DA, DB, Options>::type;
    const auto x = materialize(images);
    const auto w = materialize(filters);
    const shape window = extents_of(w);
    const detail::window_call call =
        detail::call_windows(extents_of(x), window[0], window[1], window[2] * window[3], detail::windows_of(Options));
    return call_operation<depthwise_convolution_op<T>, T, D>(call.result, call.attributes, x, w);
  }
}

template <auto...>
auto depthwise_conv2d(...) WEFT_DELETED;  // options are in brackets: depthwise_conv2d<conv2d_options{}>(x, filters)

}  // namespace weft
