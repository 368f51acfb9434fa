#pragma once

#include <weft/config.hpp>

// Whether this file sees the functions of clusters that weft::compiled_distributed has: see WEFT_DEFINITIONS in
// config.hpp. WEFT_DISTRIBUTED_DECL stands before the body of each, and WEFT_DISTRIBUTED_INSTANTIATE names an
// instantiation.
#if defined(WEFT_DISTRIBUTED_SOURCE)
  #define WEFT_DISTRIBUTED_DEFINITIONS 1
  #define WEFT_DISTRIBUTED_DECL
  #define WEFT_DISTRIBUTED_INSTANTIATE(...) template __VA_ARGS__
#elif defined(WEFT_SEPARATE_DISTRIBUTED)
  #define WEFT_DISTRIBUTED_DEFINITIONS 0
  #define WEFT_DISTRIBUTED_DECL
  #define WEFT_DISTRIBUTED_INSTANTIATE(...) extern template __VA_ARGS__
#else
  #define WEFT_DISTRIBUTED_DEFINITIONS 1
  #define WEFT_DISTRIBUTED_DECL inline
  #define WEFT_DISTRIBUTED_INSTANTIATE(...) static_assert(true)
#endif
