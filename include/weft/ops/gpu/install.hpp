#pragma once

#include <weft/device/gpu/each.hpp>
#include <weft/ops/operation.hpp>

// Which libraries the kernels of this file use: none in an emulation.
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

/// Says how the operation of this preparation for the CPU is prepared for a GPU. Of two files the one that is compiled
/// for GPUs has its way: it has all that the other has, and kernels.
template <kernel* (*PrepareCpu)(const prepare_context&)>
bool install(const preparation& how) {
  preparation& slot = preparation_of<PrepareCpu>;
  if (WEFT_COMPILES_FOR_GPU || !slot.prepare) slot = how;
  return true;
}

/// A family, or a part of one, that is one operation.
template <kernel* (*PrepareCpu)(const prepare_context&), kernel* (*Prepare)(const prepare_context&, device&)>
struct installed {
  installed() { install<PrepareCpu>({.prepare = Prepare}); }
};

}  // namespace WEFT_GPU_FILE
}  // namespace weft::gpu
