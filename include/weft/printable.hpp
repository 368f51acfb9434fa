// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <weft/config.hpp>

namespace weft {

/// Returns text from an untrusted source in a form that is safe for terminals and logs: control characters, characters
/// that change the writing direction, and bytes that are not UTF-8 are written as `\xNN`. If the result would exceed
/// `longest` bytes, it is truncated and ends in dots, within this limit.
inline std::string printable(std::string_view text, std::size_t longest = 4096) {
  constexpr std::string_view dots = "...";
  std::string shown;
  std::size_t room_for_dots = 0;  // the longest prefix after which the dots fit
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const auto follows = [&](std::size_t at) { return at < text.size() && (byte(at) & 0xc0u) == 0x80u; };
  for (std::size_t at = 0; at < text.size();) {
    const unsigned first = byte(at);
    std::size_t size = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : (first & 0xf0u) == 0xe0 ? 3 : 4;
    unsigned long point = first < 0x80 ? first : first & (0xffu >> (size + 1));
    bool well_formed = first < 0x80 || (first >= 0xc2 && first < 0xf5);
    for (std::size_t i = 1; well_formed && i < size; ++i) {
      well_formed = follows(at + i);
      if (well_formed) point = point << 6 | (byte(at + i) & 0x3fu);
    }
    constexpr unsigned long least[] = {0, 0, 0x80, 0x800, 0x10000};
    well_formed = well_formed && point >= least[size] && point < 0x110000 && !(point >= 0xd800 && point < 0xe000);
    if (!well_formed) size = 1;
    const bool control = point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029 ||
                         point == 0x200e || point == 0x200f || point == 0x61c || (point >= 0x202a && point <= 0x202e) ||
                         (point >= 0x2066 && point <= 0x2069) || point == 0xfeff;
    std::string next;
    if (well_formed && !control) {
      next = text.substr(at, size);
    } else {
      constexpr const char* digits = "0123456789abcdef";
      for (std::size_t i = 0; i < size; ++i) {
        next += "\\x";
        next += digits[byte(at + i) >> 4];
        next += digits[byte(at + i) & 15u];
      }
    }
    if (shown.size() + next.size() > longest) {
      shown.resize(room_for_dots);
      shown += dots.substr(0, longest);
      break;
    }
    shown += next;
    if (shown.size() + dots.size() <= longest) room_for_dots = shown.size();
    at += size;
  }
  return shown;
}

}  // namespace weft
