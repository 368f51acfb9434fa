#pragma once

#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>

namespace weft::device {

/// One of many indices or classes, which users may give in 32 or in 64 bits.
WEFT_HOST_DEVICE inline std::int64_t index_at(const void* indices, bool wide, std::size_t i) {
  return wide ? static_cast<const std::int64_t*>(indices)[i] : static_cast<const std::int32_t*>(indices)[i];
}

}  // namespace weft::device
