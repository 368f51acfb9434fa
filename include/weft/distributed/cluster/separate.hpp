#pragma once

#include <weft/config.hpp>

// Whether this file sees the functions of clusters that weft::compiled_distributed has: see WEFT_DEFINITIONS in
// config.hpp. WEFT_DISTRIBUTED_DECL stands before the body of each.
#if defined(WEFT_DISTRIBUTED_SOURCE)
  #define WEFT_DISTRIBUTED_DEFINITIONS 1
  #define WEFT_DISTRIBUTED_DECL
#elif defined(WEFT_SEPARATE_DISTRIBUTED)
  #define WEFT_DISTRIBUTED_DEFINITIONS 0
  #define WEFT_DISTRIBUTED_DECL
#else
  #define WEFT_DISTRIBUTED_DEFINITIONS 1
  #define WEFT_DISTRIBUTED_DECL inline
#endif
