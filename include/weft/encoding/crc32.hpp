// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <weft/encoding/crc32c.hpp>

namespace weft {

/// CRC-32 (ISO 3309; used by zip, gzip and PNG) of `bytes`. To continue an earlier checksum, pass it as `before`.
inline std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) {
  constexpr std::uint32_t polynomial = 0xedb88320u;  // bits reversed
  return ~detail::crc_portable<polynomial>(~before, bytes.data(), bytes.size());
}

}  // namespace weft
