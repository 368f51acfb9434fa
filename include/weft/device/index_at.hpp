// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>

namespace weft::device {

/// Returns one of many indices or classes, of 32 or 64 bits.
WEFT_HOST_DEVICE inline std::int64_t index_at(const void* indices, bool wide, std::size_t i) {
  return wide ? static_cast<const std::int64_t*>(indices)[i] : static_cast<const std::int32_t*>(indices)[i];
}

}  // namespace weft::device
