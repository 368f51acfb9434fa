// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/config.hpp>

// WEFT_DISTRIBUTED_DEFINITIONS is 1 if this file sees the definitions of cluster functions that
// weft::compiled_distributed contains; see WEFT_DEFINITIONS in config.hpp. WEFT_DISTRIBUTED_DECL precedes each
// definition, and WEFT_DISTRIBUTED_INSTANTIATE instantiates a template or declares an instantiation.
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
