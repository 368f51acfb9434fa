// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/grouped_convolution.hpp>
#include <weft/ops/images/convolution.hpp>

/// The operation of grouped_conv2d (ops/images/grouped_conv2d.hpp) and depthwise_conv2d
/// (ops/images/depthwise_conv2d.hpp).
WEFT_COLD_BEGIN
namespace weft {
namespace detail {

struct grouped_attributes {
  window_attributes windows;
  attribute<std::int64_t> groups;
};

/// Returns the extents of a call. Filters are [height, width, channels / groups, filters] or, with one group for each
/// channel, [height, width, channels, multiplier], which has the same memory layout.
inline convolution_shape grouped_of(const grouped_attributes& a, const shape& images, const shape& filters,
                                    const shape& result) {
  convolution_shape s = convolution_of(a.windows, images, filters[0], filters[1], result);
  s.groups = a.groups;
  const bool grouped = s.groups > 0 && images[3] == filters[2] * s.groups && result[3] == filters[3];
  const bool depthwise = images[3] == s.groups && filters[2] == s.groups && result[3] == filters[2] * filters[3];
  if ((!grouped && !depthwise) || result[3] % s.groups != 0 || result[0] != images[0] || !windows_fit(s))
    throw error(
        error_code::invalid_argument, depthwise ? "depthwise_conv2d" : "grouped_conv2d",
        {"images of extents ", to_string(images), ", filters of ", to_string(filters), " and a result of ",
         to_string(result), " do not fit together in ", s.groups,
         " groups: images must be [batch, height, width, channels], and no filter larger than the padded image"});
  return s;
}

}  // namespace detail

// As in ops/images/convolution.hpp: each operation is linear in both operands, and the three are each other's
// gradients.

/// Inputs: images, filters; output: the result.
template <class T>
struct grouped_convolution_op {
  static constexpr const char* name = "grouped_conv2d";
  static constexpr fusion_kind fusion = fusion_kind::product;
  using attributes = detail::grouped_attributes;

  static kernel* prepare_fused(const prepare_context& p, const attributes& a, const product_fusion& f) {
    return device::make_grouped_convolution<T, convolution_kind::forward>(
        detail::grouped_of(a, p.inputs[0].extents, p.inputs[1].extents, p.outputs[0].extents), p.input_slots[0],
        p.input_slots[1], f.result, f.epilogue_on_cpu());
  }
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return prepare_fused(p, a, {p.output_slots[0]});
  }
  static void gradient(gradient_context&, const attributes&);
  static double multiply_adds(const shape&, const shape& filters, const shape& result) {
    const std::int64_t channels = filters[3] == result[3] ? filters[2] : 1;  // the channels that a filter reads
    return static_cast<double>(result.elements()) * static_cast<double>(filters[0] * filters[1] * channels);
  }
};

/// Inputs: filters, the result's gradient; output: the gradient of the images.
template <class T>
struct grouped_input_gradient_op {
  static constexpr const char* name = "grouped_conv2d_input_gradient";
  using attributes = detail::grouped_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return device::make_grouped_convolution<T, convolution_kind::input_gradient>(
        detail::grouped_of(a, p.outputs[0].extents, p.inputs[0].extents, p.inputs[1].extents), p.input_slots[0],
        p.input_slots[1], p.output_slots[0]);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Inputs: images, the result's gradient; output: the gradient of the filters.
template <class T>
struct grouped_filter_gradient_op {
  static constexpr const char* name = "grouped_conv2d_filter_gradient";
  using attributes = detail::grouped_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return device::make_grouped_convolution<T, convolution_kind::filter_gradient>(
        detail::grouped_of(a, p.inputs[0].extents, p.outputs[0].extents, p.inputs[1].extents), p.input_slots[0],
        p.input_slots[1], p.output_slots[0]);
  }
  static void gradient(gradient_context&, const attributes&);
};

template <class T>
void grouped_convolution_op<T>::gradient(gradient_context& g, const attributes& a) {
  const symbol images = g.input(0), filters = g.input(1), up = g.upstream();
  if (g.needs_gradient(0)) g.set_gradient(0, record<grouped_input_gradient_op<T>>({filters, up}, images.info(), a));
  if (g.needs_gradient(1)) g.set_gradient(1, record<grouped_filter_gradient_op<T>>({images, up}, filters.info(), a));
}
template <class T>
void grouped_input_gradient_op<T>::gradient(gradient_context& g, const attributes& a) {
  const symbol filters = g.input(0), dy = g.input(1), up = g.upstream();
  if (g.needs_gradient(0)) g.set_gradient(0, record<grouped_filter_gradient_op<T>>({up, dy}, filters.info(), a));
  if (g.needs_gradient(1)) g.set_gradient(1, record<grouped_convolution_op<T>>({up, filters}, dy.info(), a));
}
template <class T>
void grouped_filter_gradient_op<T>::gradient(gradient_context& g, const attributes& a) {
  const symbol images = g.input(0), dy = g.input(1), up = g.upstream();
  if (g.needs_gradient(0)) g.set_gradient(0, record<grouped_input_gradient_op<T>>({up, dy}, images.info(), a));
  if (g.needs_gradient(1)) g.set_gradient(1, record<grouped_convolution_op<T>>({images, up}, dy.info(), a));
}

}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/grouped_convolution.hpp>
#endif
