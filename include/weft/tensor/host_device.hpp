#pragma once

#include <weft/separate.hpp>

// What a CUDA compiler needs to be told about functions that kernels call; nothing for any other compiler.
#if defined(__CUDACC__)
  #define WEFT_HOST_DEVICE __host__ __device__
#else
  #define WEFT_HOST_DEVICE
#endif

// nvcc warns of pragmas of g++, which it hands on to g++ all the same, and of functions that are for both but call what
// is for the host alone: right for those of which it knows that no kernel calls them.
//
// What kernels do call is strict. A function that is missing there, or lacks its WEFT_HOST_DEVICE, would be left out of
// the kernel with no more than a warning.
#if defined(__NVCC__) && defined(__CUDACC__)
  #define WEFT_QUIET_BEGIN \
    _Pragma("nv_diagnostic push") _Pragma("nv_diag_suppress 1675, 20011, 20012, 20013, 20014, 20015")
  #define WEFT_QUIET_END _Pragma("nv_diagnostic pop")
  #define WEFT_STRICT_BEGIN _Pragma("nv_diagnostic push") _Pragma("nv_diag_error 20011, 20012, 20013, 20014, 20015")
  #define WEFT_STRICT_END _Pragma("nv_diagnostic pop")
#else
  #define WEFT_QUIET_BEGIN
  #define WEFT_QUIET_END
  #define WEFT_STRICT_BEGIN
  #define WEFT_STRICT_END
#endif

// Around code that prepares work and does none: recording, planning, describing. It is compiled in less time, and never
// inlined into code that is optimised in full. The passes that are left out gain nothing there, and took a twentieth of
// a small program's compile time.
#if defined(__GNUC__) && !defined(__clang__)
  #define WEFT_COLD_BEGIN                                                                                       \
    WEFT_QUIET_BEGIN _Pragma("GCC push_options")                                                                \
        _Pragma("GCC optimize(\"O1\", \"no-tree-pta\", \"no-tree-loop-optimize\", \"no-tree-dominator-opts\")") \
            WEFT_QUIET_END
  #define WEFT_COLD_END _Pragma("GCC pop_options")
#else
  #define WEFT_COLD_BEGIN
  #define WEFT_COLD_END
#endif

/// Whether this file compiles kernels for GPUs, or their emulation.
#if defined(__CUDACC__) || defined(WEFT_GPU_EMULATION)
  #define WEFT_COMPILES_FOR_GPU 1
#else
  #define WEFT_COMPILES_FOR_GPU 0
#endif
