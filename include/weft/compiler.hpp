// SPDX-License-Identifier: BSL-1.0
#pragma once

// Macros for compilers, without which no header works. Programs that contain only frozen models (weft/frozen.hpp) see
// these and not config.hpp, so they can be compiled without exceptions.

// Must precede any syntax that an older language standard cannot parse.
#if !defined(__cplusplus) || __cplusplus < 202002L
  #error "Weft needs C++20: compile with -std=c++20"
  #include <Weft needs C++20>  // no such file: compilers stop here
#endif

// Extents are 64-bit integers, and tensors count their elements in std::ptrdiff_t.
#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8
  #error "Weft needs a 64-bit processor: compile without -m32 or for another target"
  #include <Weft needs a 64-bit processor>  // no such file: compilers stop here
#endif

// ---- separate compilation ----

// By default, every file that includes Weft compiles the parts of Weft that it uses. Functions that are not templates,
// and templates instantiated for float, can instead be compiled once per program: a file that defines
// WEFT_SEPARATE_COMPILATION sees only their declarations, and one file that includes <weft/source.hpp> compiles their
// definitions. The CMake target weft::compiled does both.
//
// WEFT_DEFINITIONS is 1 if this file sees the definitions. Without them, it sees declarations only of functions that
// templates and programs call. WEFT_DECL precedes each definition, and WEFT_INSTANTIATE instantiates a template or
// declares an instantiation.
#if defined(WEFT_SOURCE)
  #define WEFT_DEFINITIONS 1
  #define WEFT_DECL
  #define WEFT_INSTANTIATE(...) template __VA_ARGS__
#elif defined(WEFT_SEPARATE_COMPILATION)
  #define WEFT_DEFINITIONS 0
  #define WEFT_DECL
  #define WEFT_INSTANTIATE(...) extern template __VA_ARGS__
#else
  #define WEFT_DEFINITIONS 1
  #define WEFT_DECL inline
  #define WEFT_INSTANTIATE(...) static_assert(true)
#endif

/// Marks symbols that the shared libraries of a process share: exceptions, and registries that another library reads.
/// All other symbols can be hidden, and weft::compiled hides them.
#define WEFT_API __attribute__((visibility("default")))

// ---- CUDA ----

/// Marks functions that kernels call, including the formulas of your own operations. Empty unless the compiler is a
/// CUDA compiler.
#if defined(__CUDACC__)
  #define WEFT_HOST_DEVICE __host__ __device__
#else
  #define WEFT_HOST_DEVICE
#endif

// nvcc warns about g++ pragmas, although it passes them on to g++, and about functions for both host and device that
// call host functions. The latter are correct if no kernel calls them.
//
// Code that kernels call is strict: if a function is missing there or lacks WEFT_HOST_DEVICE, nvcc would leave it out
// of the kernel with only a warning.
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

/// 1 if this file compiles kernels for GPUs or for their emulation.
#if defined(__CUDACC__) || defined(WEFT_GPU_EMULATION)
  #define WEFT_COMPILES_FOR_GPU 1
#else
  #define WEFT_COMPILES_FOR_GPU 0
#endif

// ---- optimization ----

// Encloses code that prepares work: recording, planning, describing. Such code compiles faster and is never inlined
// into fully optimized code. The omitted passes gain nothing there and took 5% of a small program's compile time.
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

#define WEFT_FLATTEN __attribute__((flatten))

/// For small functions called from functions marked WEFT_FLATTEN: clang's `flatten` inlines one level only, g++'s all
/// levels.
#if defined(__clang__)
  #define WEFT_INLINE inline __attribute__((always_inline))
#else
  #define WEFT_INLINE inline
#endif

/// For functions called from a function marked WEFT_VECTORS. Under -O3, g++ does not inline other functions there,
/// because it does not inline code of a higher optimization level into code of a lower one: they would miss its
/// instruction set.
#define WEFT_ALWAYS_INLINE inline __attribute__((always_inline))

#define WEFT_TARGET_BASELINE WEFT_FLATTEN
#if defined(__x86_64__)
  #define WEFT_TARGET_AVX2 __attribute__((target("avx2,fma"), flatten))
  #define WEFT_TARGET_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl,avx512bw"), flatten))
#endif

/// WEFT_LOOPS is for functions whose loops the compiler should vectorize: at -O2, g++ leaves most of them scalar.
/// WEFT_VECTORS is for functions written with vector types.
#if defined(__clang__)
  #define WEFT_LOOPS
  #define WEFT_VECTORS
#else
  #define WEFT_LOOPS __attribute__((optimize("O3")))
  #define WEFT_VECTORS __attribute__((optimize("O2")))
#endif

/// For the baseline of loops that also have a version for AVX2. On x86-64 it is what plain -O2 generates, because
/// processors without AVX2 are rare. On other processors it is the only version.
#if defined(__x86_64__)
  #define WEFT_BASELINE_LOOPS
#else
  #define WEFT_BASELINE_LOOPS WEFT_TARGET_BASELINE WEFT_LOOPS
#endif

/// For functions without fused multiply-adds, whose results have the same bits on every machine. The argument names
/// other g++ optimizations, with a comma: WEFT_UNFUSED("O3,"). clang fuses only within one expression.
#if defined(__clang__)
  #define WEFT_UNFUSED(...) __attribute__((flatten))
#else
  #define WEFT_UNFUSED(...) __attribute__((optimize(__VA_ARGS__ "fp-contract=off"), flatten))
#endif

/// Precedes a loop whose iterations are independent of each other.
#if defined(__clang__)
  #if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    #define WEFT_VECTORIZE  // clang cannot vectorize under these sanitizers and would warn
  #else
    #define WEFT_VECTORIZE _Pragma("clang loop vectorize(enable) interleave(enable)")
  #endif
#else
  #define WEFT_VECTORIZE _Pragma("GCC ivdep")
#endif
