// SPDX-License-Identifier: BSL-1.0
#pragma once

// The macros that configure Weft, whether a program sets them or the compiler does. Every header includes this one
// before its own code.

#include <weft/compiler.hpp>
#include <weft/version.hpp>

// The device pass of a CUDA compiler has no exceptions.
#if !defined(__cpp_exceptions) && !defined(__CUDA_ARCH__)
  #error "Weft reports errors by exceptions: compile without -fno-exceptions"
  #include <Weft needs exceptions>  // no such file: compilers stop here
#endif

// ---- checks ----

/// 1 if access to single elements checks its indices, otherwise 0. Default: 1 unless NDEBUG is defined, as for assert.
/// The macro does not change layouts, so files of one program may differ.
#if !defined(WEFT_CHECKED)
  #if defined(NDEBUG)
    #define WEFT_CHECKED 0
  #else
    #define WEFT_CHECKED 1
  #endif
#endif
