#pragma once

/// NVIDIA GPUs for the program that includes this, in any of its files: `cuda{0}` is then a device.
///
///     #include <weft/cuda.hpp>
///     session s{g, {.device = cuda{0}}};
///
/// A file compiled by nvcc has all kernels, for the expressions that it writes down. In a file compiled by any other
/// compiler the device is there, and what libraries do: matrix products and convolutions. Link weft::cuda.

#include <weft/weft.hpp>

#include <weft/device/gpu/cuda.hpp>
#include <weft/device/gpu/math_policy.hpp>
#include <weft/device/gpu/pinned_allocator.hpp>
#include <weft/ops/gpu/all.hpp>
#include <weft/ops/gpu/convolution.hpp>
#include <weft/ops/gpu/matmul.hpp>
#include <weft/ops/gpu/pooling.hpp>
#include <weft/session/devices.hpp>
#include <weft/session/gpu_session.hpp>

namespace weft::gpu {

/// Without a driver or a GPU the platform is there all the same, and says so when it is asked.
inline const bool cuda_is_installed = [] {
  if (!installed_platform) installed_platform = &cuda_devices();
  return true;
}();

}  // namespace weft::gpu
