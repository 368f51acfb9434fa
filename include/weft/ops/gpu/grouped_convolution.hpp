// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/convolution.hpp>
#include <weft/ops/images/grouped_convolution.hpp>

/// GPU kernels of grouped and depthwise convolutions, which reuse the kernels of convolutions. A file compiled by a
/// host compiler includes this header by name to use cuDNN's.
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

template <convolution_kind Kind>
convolution_shape shape_of_groups(const prepare_context& p) {
  const auto how = attributes_of<grouped_convolution_op<float>>(p.node);  // all three operations have these, for any
                                                                          // type
  const shape &a = p.inputs[0].extents, &b = p.inputs[1].extents, &out = p.outputs[0].extents;
  if constexpr (Kind == convolution_kind::forward) return weft::detail::grouped_of(how, a, b, out);
  if constexpr (Kind == convolution_kind::input_gradient) return weft::detail::grouped_of(how, out, a, b);
  return weft::detail::grouped_of(how, a, out, b);
}

template <class T>
bool install_grouped_convolution() {
  using enum convolution_kind;
  return install_convolution_kind<grouped_convolution_op<T>, T, forward, shape_of_groups<forward>>() &&
         install_convolution_kind<grouped_input_gradient_op<T>, T, input_gradient, shape_of_groups<input_gradient>>() &&
         install_convolution_kind<grouped_filter_gradient_op<T>, T, filter_gradient,
                                  shape_of_groups<filter_gradient>>();
}

#if !WEFT_COMPILES_FOR_GPU && WEFT_GPU_USES_CUDNN
inline const bool grouped_convolution_is_installed = install_grouped_convolution<float>() &&
                                                     install_grouped_convolution<half>() &&
                                                     install_grouped_convolution<bfloat16>();
#endif

}  // namespace WEFT_GPU_FILE

#if WEFT_COMPILES_FOR_GPU
template <class T>
struct kernels<grouped_convolution_op<T>> : kernels<moves<T>> {
  kernels() { install_grouped_convolution<T>(); }
};
#endif

}  // namespace weft::gpu
