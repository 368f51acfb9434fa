#pragma once

// Said once, and before anything that an older language does not know: every header includes this one before its code.
#if !defined(__cplusplus) || __cplusplus < 202002L
  #error "Weft needs C++20: compile with -std=c++20"
  #include <Weft needs C++20>  // no such file: compilers stop here
#endif
