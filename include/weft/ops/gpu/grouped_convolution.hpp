// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/convolution.hpp>
#include <weft/ops/images/grouped_convolution.hpp>

/// GPU kernels of grouped and depthwise convolutions, which reuse the kernels of convolutions. A file compiled by a
/// host compiler includes this header by name to use cuDNN's.
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

#if !WEFT_COMPILES_FOR_GPU && WEFT_GPU_USES_CUDNN
inline const bool grouped_convolution_is_installed = install_convolution<grouped_operation, float>() &&
                                                     install_convolution<grouped_operation, half>() &&
                                                     install_convolution<grouped_operation, bfloat16>();
#endif

}  // namespace WEFT_GPU_FILE

#if WEFT_COMPILES_FOR_GPU
template <class T>
struct kernels<grouped_convolution_op<T>> : kernels<moves<T>> {
  kernels() { install_convolution<grouped_operation, T>(); }
};
#endif

}  // namespace weft::gpu
