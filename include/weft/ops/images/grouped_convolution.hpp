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
inline convolution_shape convolution_of(const grouped_attributes& a, const shape& images, const shape& filters,
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

/// A grouped convolution or one of its gradients.
template <class T, convolution_kind Kind>
struct grouped_operation : detail::convolution_base<grouped_operation, T, Kind, detail::grouped_attributes> {
  using base = detail::convolution_base<weft::grouped_operation, T, Kind, detail::grouped_attributes>;
  static constexpr const char* name = base::is_forward                           ? "grouped_conv2d"
                                      : Kind == convolution_kind::input_gradient ? "grouped_conv2d_input_gradient"
                                                                                 : "grouped_conv2d_filter_gradient";
  static constexpr const char* onnx = base::onnx_of(Kind);

  static kernel* make(const prepare_context& p, const convolution_shape& s, const product_fusion& f) {
    return device::make_grouped_convolution<T, Kind>(s, p.input_slots[0], p.input_slots[1], f.result,
                                                     f.epilogue_on_cpu());
  }
  static double multiply_adds(const shape&, const shape& filters, const shape& result) {
    if (!base::is_forward) return 0;
    const std::int64_t channels = filters[3] == result[3] ? filters[2] : 1;  // the channels that a filter reads
    return static_cast<double>(result.elements()) * static_cast<double>(filters[0] * filters[1] * channels);
  }
};
/// A grouped convolution.
template <class T>
using grouped_convolution_op = grouped_operation<T, convolution_kind::forward>;

}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/grouped_convolution.hpp>
#endif
