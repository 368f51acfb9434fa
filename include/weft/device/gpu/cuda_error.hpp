// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <cuda_runtime_api.h>

#include <weft/error.hpp>

/// Converts errors of the CUDA runtime to errors of Weft.
namespace weft::gpu {

/// Returns true if every later call fails in the same way, so that only a new process can use the device again.
constexpr bool device_is_lost(cudaError_t e) {
  switch (static_cast<int>(e)) {  // errors without a name in every toolkit, by number
    case 226:                     // cudaErrorContained
    case 721:                     // cudaErrorTensorMemoryLeak
    case 810:                     // cudaErrorMpsClientTerminated
    case 911:                     // cudaErrorExternalDevice
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
      return true;
    default:
      return false;
  }
}

/// Returns the error for a failed call; `doing` is its purpose, such as "to copy 400 bytes".
inline error cuda_error(cudaError_t e, const std::string& operation, const std::string& doing) {
  const std::string reason = std::string(cudaGetErrorString(e)) + " (" + cudaGetErrorName(e) + ")";
  if (device_is_lost(e))
    return error(
        error_code::internal, operation,
        "failed on the GPU: " + reason +
            "; this process can no longer use the device: end it, and continue from a checkpoint in a new one; with "
            "CUDA_LAUNCH_BLOCKING=1 in the environment the error names the operation that caused it");
  switch (e) {
    case cudaErrorMemoryAllocation:
      return error(error_code::resource_exhausted, operation, "cannot " + doing + ": the GPU's memory is full");
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
      return error(error_code::unimplemented, operation,
                   "is not compiled for this GPU: add its architecture to CMAKE_CUDA_ARCHITECTURES (" + reason + ")");
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorDevicesUnavailable:
      return error(error_code::unavailable, operation, "cannot " + doing + ": " + reason);
    default:
      return error(error_code::internal, operation, "cannot " + doing + ": " + reason);
  }
}

/// Throws the error of a failed call. Clears an error that is not fatal to the device, so that the next call starts
/// clean.
inline void check(cudaError_t e, const char* operation, const char* doing) {
  if (e == cudaSuccess) return;
  cudaGetLastError();
  throw cuda_error(e, operation, doing);
}

}  // namespace weft::gpu
