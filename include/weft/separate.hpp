#pragma once

#include <weft/language.hpp>

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
