// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Makes detected_isa throw invalid_argument if WEFT_ISA has an unknown value.
inline const bool isa_errors_are_thrown = [] {
  refuse_isa = [](const char* request) {
    throw error(error_code::invalid_argument, "WEFT_ISA", {"must be baseline, avx2 or avx512; it is ", request});
  };
  return true;
}();

}  // namespace weft::detail
