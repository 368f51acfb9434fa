// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <weft/config.hpp>

namespace weft::data {

/// Decompresses a block in Snappy's format (google/snappy, format_description.txt) into `unpacked`. Returns false if
/// the block is malformed. Never allocates more than the packed bytes can expand to.
inline bool unpack_snappy(std::span<const std::byte> packed, std::vector<std::byte>& unpacked) {
  std::size_t at = 0;
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(packed[i]); };
  std::size_t size = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (at == packed.size() || shift > 28) return false;
    size |= (byte(at) & 127u) << shift;
    if (byte(at++) < 128) break;
  }
  if (size > 32 * packed.size()) return false;  // three bytes expand to at most 64
  unpacked.clear();
  unpacked.reserve(size);
  while (at < packed.size()) {
    const std::size_t tag = byte(at++);
    std::size_t length = (tag >> 2) + 1;
    if (tag % 4 == 0) {  // literal bytes; 60 to 63: the length is in the next 1 to 4 bytes
      if (const std::size_t digits = length > 60 ? length - 60 : 0) {
        if (digits > packed.size() - at) return false;
        length = 1;
        for (std::size_t i = 0; i < digits; ++i) length += byte(at++) << 8 * i;
      }
      if (length > packed.size() - at || length > size - unpacked.size()) return false;
      const auto literal = packed.subspan(at, length);
      unpacked.insert(unpacked.end(), literal.begin(), literal.end());
      at += length;
      continue;
    }
    const std::size_t digits = tag % 4 == 3 ? 4 : tag % 4;
    if (digits > packed.size() - at) return false;
    std::size_t back = 0;
    for (std::size_t i = 0; i < digits; ++i) back |= byte(at++) << 8 * i;
    if (tag % 4 == 1) {
      length = 4 + (tag >> 2) % 8;
      back |= tag >> 5 << 8;
    }
    if (back == 0 || back > unpacked.size() || length > size - unpacked.size()) return false;
    for (std::size_t i = 0; i < length; ++i) unpacked.push_back(unpacked[unpacked.size() - back]);  // may overlap
  }
  return unpacked.size() == size;
}

}  // namespace weft::data
