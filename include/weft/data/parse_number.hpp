// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>

#include <weft/config.hpp>
#include <weft/tensor/dtype.hpp>

/// Parses numbers, rounded to nearest: decimal numbers of common types with a fast path, all others with
/// std::from_chars.
namespace weft::data::detail {

/// Appends up to eight digits to `digits` and returns their number. Always reads eight bytes.
WEFT_INLINE unsigned take_digits(const char* at, std::uint64_t& digits) {
  static_assert(std::endian::native == std::endian::little);
  static constexpr std::uint64_t powers[] = {1, 10, 100, 1000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  word ^= 0x3030303030303030u;  // digits are now 0 to 9
  const std::uint64_t others = (word | (word + 0x7676767676767676u)) & 0x8080808080808080u;
  if (others & 0x80u) return 0;
  const auto count = others ? static_cast<unsigned>(std::countr_zero(others)) / 8 : 8u;
  word <<= 8 * (8 - count);
  // Combine to pairs, to groups of four, and to eight digits.
  word = word * 10 + (word >> 8);
  const std::uint64_t mask = 0x000000ff000000ffu;
  word = ((word & mask) * 0x000f424000000064u + ((word >> 16) & mask) * 0x0000271000000001u) >> 32;
  digits = digits * powers[count] + (word & 0xffffffffu);
  return count;
}
WEFT_INLINE const char* take_all_digits(const char* at, std::uint64_t& digits) {
  unsigned count = take_digits(at, digits);
  at += count;
  // Most numbers end here; outside of the loop, the compiler keeps all values in registers.
  if (count == 8) [[unlikely]]
    for (; count == 8; at += count) count = take_digits(at, digits);
  return at;
}

/// Parses a decimal number that starts at `at`. Returns a pointer to the text after it, including an exponent, or null
/// if only std::from_chars can parse it exactly. The caller makes 8 bytes after the text readable; the first of them
/// must not be part of a number.
template <class T>
WEFT_INLINE const char* parse_decimal(const char* at, T& to) {
  const bool negative = *at == '-';
  if (negative) ++at;
  std::uint64_t digits = 0;
  if constexpr (std::is_floating_point_v<T>) {
    const char* const first = at;
    while (static_cast<unsigned char>(*at - '0') < 10) digits = 10 * digits + static_cast<unsigned char>(*at++ - '0');
    std::ptrdiff_t count = at - first, behind = 0;
    if (*at == '.') {
      const char* const point = at + 1;
      at = take_all_digits(point, digits);
      behind = at - point;
      count += behind;
    }
    static constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                        1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
    // All numbers of up to 15 digits are exact in a double.
    if (static_cast<std::size_t>(count - 1) >= 15 && (count == 0 || count > 18 || digits > (std::uint64_t{1} << 53)))
      return nullptr;
    // Both numbers are exact in a double, so their quotient is rounded once (Clinger 1990).
    const double value = static_cast<double>(digits) / powers[behind];
    if constexpr (std::is_same_v<T, float>) {
      // Rounding again, to float, is correct unless the value is exactly halfway between two floats.
      if ((std::bit_cast<std::uint64_t>(value) & 0x1fffffffu) == 0x10000000u) return nullptr;
    }
    to = static_cast<T>(negative ? -value : value);
  } else {
    const char* const first = at;
    at = take_all_digits(at, digits);
    if (at == first || at - first > 18) return nullptr;
    if (negative && std::is_unsigned_v<T> && digits > 0) return nullptr;
    if (digits > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return nullptr;
    to = static_cast<T>(negative ? 0 - digits : digits);
  }
  return at;
}

/// Returns true if a decimal number that is out of every type's range is too large rather than too small.
inline bool is_too_large(std::string_view text) {
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, e);
  const std::size_t point = std::min(digits.find('.'), e), first = std::min(digits.find_first_of("123456789"), e);
  std::int64_t exponent = 0;
  std::string_view written = text.substr(std::min(e + 1, text.size()));
  if (written.starts_with('+')) written.remove_prefix(1);
  if (std::from_chars(written.data(), written.data() + written.size(), exponent).ec == std::errc::result_out_of_range)
    return written.front() != '-';
  return exponent > static_cast<std::int64_t>(first) - static_cast<std::int64_t>(point);
}

/// Parses a whole text as a number; ignores spaces around it.
template <class T>
bool parse_number(std::string_view text, T& to) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  if constexpr (std::is_same_v<T, bool>) {
    for (const char* word : {"1", "true", "True", "TRUE"})
      if (text == word) return to = true, true;
    for (const char* word : {"0", "false", "False", "FALSE"})
      if (text == word) return to = false, true;
    return false;
  } else if constexpr (is_storage_type<T>) {
    double wide;
    if (!parse_number(text, wide)) return false;
    // Avoids double rounding: the intermediate float is rounded to odd, unless it is exact.
    float value = static_cast<float>(wide);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isfinite(value) && static_cast<double>(value) != wide && bits % 2 == 0)
      value = std::bit_cast<float>(std::abs(static_cast<double>(value)) < std::abs(wide) ? bits + 1 : bits - 1);
    to = T(value);
    return true;
  } else {
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), to);
    if (end != text.data() + text.size()) return false;
    if (problem == std::errc()) return true;
    if constexpr (std::is_floating_point_v<T>) {
      // Numbers out of range become infinity or 0.
      if (problem == std::errc::result_out_of_range) {
        using wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;
        wider value = std::numeric_limits<wider>::infinity();
        if constexpr (std::is_same_v<T, float>) {
          parse_number(text, value);
        } else if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
          if (!is_too_large(text)) value = 0;
          if (text.front() == '-') value = -value;
        }
        to = static_cast<T>(value);
        return true;
      }
    }
    return false;
  }
}

}  // namespace weft::data::detail
