// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/each.hpp>
#include <weft/ops/operation.hpp>

// The libraries that the kernels of this file use: none in an emulation.
#if defined(WEFT_HAS_CUBLASLT) && !defined(WEFT_GPU_EMULATION)
  #define WEFT_GPU_USES_CUBLASLT 1
#else
  #define WEFT_GPU_USES_CUBLASLT 0
#endif
#if defined(WEFT_HAS_CUDNN) && !defined(WEFT_GPU_EMULATION)
  #define WEFT_GPU_USES_CUDNN 1
#else
  #define WEFT_GPU_USES_CUDNN 0
#endif

namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

/// Registers the GPU preparation of an operation. If two files register one, the file compiled for GPUs wins, since it
/// has kernels in addition to all that the other file has.
template <class Op>
bool install(const preparation& how) {
  preparation& slot = preparation_of<Op>;
  if (WEFT_COMPILES_FOR_GPU || !slot.prepare) slot = how;
  return true;
}

template <class Op, kernel* (*Prepare)(const prepare_context&, device&)>
struct installed {
  installed() { install<Op>({.prepare = Prepare}); }
};

}  // namespace WEFT_GPU_FILE
}  // namespace weft::gpu
