#pragma once

// Every macro by which a program, or the compiler that reads it, configures Weft: each header sees this one before its
// code.

// Said once, and before anything that an older language does not know: every header includes this one before its code.
#if !defined(__cplusplus) || __cplusplus < 202002L
  #error "Weft needs C++20: compile with -std=c++20"
  #include <Weft needs C++20>  // no such file: compilers stop here
#endif

// Not in the pass of a CUDA compiler for the device, where they do not exist.
#if !defined(__cpp_exceptions) && !defined(__CUDA_ARCH__)
  #error "Weft reports errors by exceptions: compile without -fno-exceptions"
  #include <Weft needs exceptions>  // no such file: compilers stop here
#endif

// ---- what is compiled here, and what once for a program ----

// Every file that includes Weft compiles what it uses of it. The half that is no template, and templates of float, can
// be compiled once for a whole program: a file with WEFT_SEPARATE_COMPILATION defined sees declarations only, and one
// that includes <weft/source.hpp> compiles the rest. The CMake target weft::compiled is both.
//
// WEFT_DEFINITIONS says whether this file sees the functions that other files can do without: those that templates and
// programs call, for what these call is compiled only where they are. WEFT_DECL stands before the body of each, and
// WEFT_INSTANTIATE names an instantiation.
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

/// Marks what the modules of a process share: exceptions, and registries that another module looks into. Everything
/// else can be hidden, and weft::compiled hides it.
#define WEFT_API __attribute__((visibility("default")))

// ---- checks ----

/// Whether access to single elements checks its indices: 1 or 0; unless said, where NDEBUG is not defined, as assert
/// does. It changes no layout: parts of a program may differ.
#if !defined(WEFT_CHECKED)
  #if defined(NDEBUG)
    #define WEFT_CHECKED 0
  #else
    #define WEFT_CHECKED 1
  #endif
#endif

// ---- CUDA ----

/// Marks functions that kernels call, formulas of your own operations among them, as a CUDA compiler needs it; empty
/// for any other compiler.
#if defined(__CUDACC__)
  #define WEFT_HOST_DEVICE __host__ __device__
#else
  #define WEFT_HOST_DEVICE
#endif

// nvcc warns of pragmas of g++, which it hands on to g++ all the same, and of functions that are for both but call what
// is for the host alone: right for those of which it knows that no kernel calls them.
//
// Code that kernels do call is strict. A function that is missing there, or lacks its WEFT_HOST_DEVICE, would be left
// out of the kernel with no more than a warning.
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

/// Whether this file compiles kernels for GPUs, or their emulation.
#if defined(__CUDACC__) || defined(WEFT_GPU_EMULATION)
  #define WEFT_COMPILES_FOR_GPU 1
#else
  #define WEFT_COMPILES_FOR_GPU 0
#endif

// ---- optimisation ----

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

#define WEFT_FLATTEN __attribute__((flatten))

/// For small functions called from such loops: clang's `flatten` reaches one level deep only, g++'s all of them.
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

/// For functions whose loops the compiler is to vectorise: at -O2 g++ leaves most of them alone. And for those that are
/// written in vectors.
#if defined(__clang__)
  #define WEFT_LOOPS
  #define WEFT_VECTORS
#else
  #define WEFT_LOOPS __attribute__((optimize("O3")))
  #define WEFT_VECTORS __attribute__((optimize("O2")))
#endif

/// For functions without fused multiply-adds, whose bits are the same on every machine; what other optimisations g++ is
/// to make there comes first: WEFT_UNFUSED("O3,"). clang makes none of its own accord.
#if defined(__clang__)
  #define WEFT_UNFUSED(...) __attribute__((flatten))
#else
  #define WEFT_UNFUSED(...) __attribute__((optimize(__VA_ARGS__ "fp-contract=off"), flatten))
#endif

/// Before a loop whose iterations are independent of each other.
#if defined(__clang__)
  #if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    #define WEFT_VECTORIZE  // it cannot, and would warn
  #else
    #define WEFT_VECTORIZE _Pragma("clang loop vectorize(enable) interleave(enable)")
  #endif
#else
  #define WEFT_VECTORIZE _Pragma("GCC ivdep")
#endif
