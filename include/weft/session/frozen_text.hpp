// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/session/freeze_names.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/text.hpp>

WEFT_COLD_BEGIN
/// The text of names, types and elements in frozen headers.
namespace weft::detail {

/// Returns an identifier of frozen headers that resembles a name.
inline std::string frozen_identifier(const std::string& name) {
  std::string id;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), digit = c >= '0' && c <= '9';
    if (letter || (digit && !id.empty()))
      id += c;
    else if (!id.empty() && id.back() != '_')
      id += '_';
  }
  while (!id.empty() && id.back() == '_') id.pop_back();
  if (id.empty()) id = "value";
  constexpr const char* own =
      "std weft predict workspace memory load scratch results weights frozen expressions all apply argument constant "
      "formula numbers expression";
  // Loops count by i0, i1 and so on; numbers_1 and expression_1 are also names of the header.
  const std::string stem = id.substr(0, id.find_last_not_of("0123456789") + 1);
  const bool is_made = stem.size() < id.size() && has_word("i numbers_ expression_", stem);
  return is_made || has_word(words_of_cpp, id) || has_word(own, id) ? id + '_' : id;
}

/// Returns the type of elements in C++.
inline const char* frozen_type(dtype t) {
  constexpr const char* names[] = {"bool",           "std::int8_t",   "std::int16_t",  "std::int32_t",  "std::int64_t",
                                   "std::uint8_t",   "std::uint16_t", "std::uint32_t", "std::uint64_t", "weft::half",
                                   "weft::bfloat16", "float",         "double"};
  return names[static_cast<std::size_t>(t)];
}

/// Returns the enumerator of an element type.
inline std::string frozen_dtype(dtype t) {
  const std::string n = name(t);
  return "weft::dtype::" + std::string(n == "bool"     ? "boolean"
                                       : n == "half"   ? "float16"
                                       : n == "float"  ? "float32"
                                       : n == "double" ? "float64"
                                                       : n);
}

/// Returns the literal of an element, which reads back to the same bits; of half and bfloat16, the bits.
inline std::string frozen_literal(dtype t, const std::byte* at) {
  const auto as = [&](auto x) {
    __builtin_memcpy(&x, at, sizeof x);
    return x;
  };
  const auto floating = [](double x, int digits, const char* suffix) -> std::string {
    if (x != x) return str_cat({"__builtin_nan", suffix, "(\"\")"});
    if (x > 0x1.fffffffffffffp1023 || x < -0x1.fffffffffffffp1023)
      return str_cat({x < 0 ? "-" : "", "__builtin_inf", suffix, "()"});
    std::string n = format_number("%.*g", digits, x);
    if (n.find_first_of(".e") == std::string::npos) n += '.';
    return n + suffix;
  };
  switch (t) {
    case dtype::float32:
      return floating(static_cast<double>(as(0.0f)), 9, "f");
    case dtype::float64:
      return floating(as(0.0), 17, "");
    case dtype::boolean:
      return as(std::uint8_t{}) ? "true" : "false";
    case dtype::int8:
      return std::to_string(as(std::int8_t{}));
    case dtype::int16:
      return std::to_string(as(std::int16_t{}));
    case dtype::int32: {
      const auto x = as(std::int32_t{});
      return x == INT32_MIN ? "-2147483647 - 1" : std::to_string(x);
    }
    case dtype::int64: {
      const auto x = as(std::int64_t{});
      return x == INT64_MIN ? "-9223372036854775807 - 1" : std::to_string(x);
    }
    case dtype::uint8:
      return std::to_string(as(std::uint8_t{}));
    case dtype::uint16:
    case dtype::float16:
    case dtype::bfloat16:
      return std::to_string(as(std::uint16_t{}));
    case dtype::uint32:
      return std::to_string(as(std::uint32_t{})) + "u";
    default:
      return std::to_string(as(std::uint64_t{})) + "u";
  }
}

}  // namespace weft::detail
WEFT_COLD_END
