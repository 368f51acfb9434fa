// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/data/new_stages.hpp>

#if WEFT_DEFINITIONS
  #include <weft/data/stages/batch.hpp>
  #include <weft/data/stages/cached.hpp>
  #include <weft/data/stages/filtered.hpp>
  #include <weft/data/stages/mapped.hpp>
  #include <weft/data/stages/prefetched.hpp>
  #include <weft/data/stages/repeated.hpp>
  #include <weft/data/stages/selected.hpp>
  #include <weft/data/stages/shuffled.hpp>
  #include <weft/data/stages/zipped.hpp>
#endif
