// SPDX-License-Identifier: BSL-1.0
#pragma once

/// NVIDIA GPUs. Include this header in at least one file of the program; `cuda{0}` is then a device.
///
///     #include <weft/cuda.hpp>
///     session s{g, {.device = cuda{0}}};
///
/// A file compiled by nvcc contains the kernels of all its expressions. A file compiled by another compiler has the
/// device and the library operations only: matrix products and convolutions. Link weft::cuda.

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

/// Installs the platform even without a driver or a GPU; the platform reports their absence when it is used.
inline const bool cuda_is_installed = [] {
  if (!installed_platform) installed_platform = &cuda_devices();
  return true;
}();

}  // namespace weft::gpu
