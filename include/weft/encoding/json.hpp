// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Returns true if the bytes are valid UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
inline bool is_utf8(std::string_view s) {
  for (std::size_t i = 0; i < s.size();) {
    const auto at = [&](std::size_t k) { return k < s.size() ? static_cast<unsigned char>(s[k]) : 0u; };
    const unsigned first = at(i);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first < 0xc2 || first > 0xf4) return false;
    for (std::size_t k = 1; k < size; ++k)
      if ((at(i + k) & 0xc0u) != 0x80u) return false;
    const unsigned second = at(i + 1);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
        (first == 0xf4 && second > 0x8f))
      return false;
    i += size;
  }
  return true;
}

/// Returns the text as a JSON string, including the quotes.
inline std::string json_string(std::string_view s) {
  std::string quoted = "\"";
  for (const char c : s) {
    constexpr const char* digits = "0123456789abcdef";
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      quoted += '\\', quoted += c;
    else if (code < 0x20)
      quoted += "\\u00", quoted += digits[code >> 4], quoted += digits[code & 15u];
    else
      quoted += c;
  }
  return quoted += '"';
}

/// Reads JSON (RFC 8259) whose structure the caller knows, value by value. Strict: no comments, no trailing commas,
/// only UTF-8. Throws data_loss, which names the file and the position in it.
class json_reader {
 public:
  /// `path` and `begin`, the offset of the text in that file, are for messages.
  json_reader(std::string_view text, const std::string& path, std::uint64_t begin)
      : text_(text), path_(path), begin_(begin) {
    if (!is_utf8(text)) fail("the header is not UTF-8");
  }

  /// Reads an object. `member(name)` reads the value of each member.
  template <class Member>
  void object(Member member) {
    list('{', '}', [&] {
      const std::string key = string();
      expect(':');
      member(key);
    });
  }
  /// Reads an array. `element()` reads each element.
  template <class Element>
  void array(Element element) {
    list('[', ']', element);
  }

  std::string string() {
    expect('"');
    std::string s;
    for (;;) {
      if (at_ == text_.size()) fail("an unclosed string");
      const char c = text_[at_++];
      if (c == '"') return s;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
      if (c == '\\')
        escaped(s);
      else
        s += c;
    }
  }

  /// Reads a non-negative integer.
  std::uint64_t number() {
    space();
    const std::size_t first = at_;
    std::uint64_t n = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_)
      if (__builtin_mul_overflow(n, std::uint64_t{10}, &n) ||
          __builtin_add_overflow(n, static_cast<std::uint64_t>(text_[at_] - '0'), &n))
        fail("a number exceeds 64 bits");
    if (at_ == first) fail("a nonnegative integer is expected");
    if (text_[first] == '0' && at_ > first + 1) fail("a number begins with 0");
    if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E'))
      fail("an integer is expected");
    return n;
  }

  /// Skips a value of any kind.
  void skip(int depth = 0) {
    if (depth > 32) fail("values are nested too deeply");
    switch (peek()) {
      case '{':
        return object([&](const std::string&) { skip(depth + 1); });
      case '[':
        return array([&] { skip(depth + 1); });
      case '"':
        return static_cast<void>(string());
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return any_number();
    }
  }

  /// Returns the next character that is not white space; 0 at the end.
  char peek() {
    space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  void end() {
    if (peek() != '\0' || at_ < text_.size()) fail("text after the end");
  }

  [[noreturn]] void fail(piece what) const {
    throw error(error_code::data_loss, "read", {path_, " is damaged at byte ", begin_ + at_, ": ", what});
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  void expect(char c) {
    const char words[] = {'\'', c, '\'', ' ', 'i', 's', ' ', 'e', 'x', 'p', 'e', 'c', 't', 'e', 'd', '\0'};
    if (peek() != c) fail(words);
    ++at_;
  }
  template <class One>
  void list(char open, char close, One one) {
    expect(open);
    if (peek() == close) return static_cast<void>(++at_);
    for (;;) {
      one();
      if (peek() == close) return static_cast<void>(++at_);
      expect(',');
    }
  }
  void word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) fail("a value is expected");
    at_ += w.size();
  }
  void digits() {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ == first) fail("a value is expected");
  }
  void any_number() {
    const auto take = [&](char c) { return at_ < text_.size() && text_[at_] == c ? ++at_, true : false; };
    take('-');
    if (!take('0')) digits();
    if (take('.')) digits();
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      digits();
    }
  }

  unsigned four_digits() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      const char lower = static_cast<char>(c | 0x20);
      if (!is_digit(c) && !(lower >= 'a' && lower <= 'f')) fail("\\u requires four hexadecimal digits");
      code = code * 16 + static_cast<unsigned>(is_digit(c) ? c - '0' : lower - 'a' + 10);
      ++at_;
    }
    return code;
  }
  void escaped(std::string& s) {
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    if (const std::size_t i = from.find(c); i != from.npos) return static_cast<void>(s += to[i]);
    if (c != 'u') fail("an unknown escape");
    unsigned code = four_digits();
    if (code >= 0xdc00 && code < 0xe000) fail("half of a surrogate pair");
    if (code >= 0xd800 && code < 0xdc00) {
      if (text_.substr(at_, 2) != "\\u") fail("half of a surrogate pair");
      at_ += 2;
      const unsigned low = four_digits();
      if (low < 0xdc00 || low >= 0xe000) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    const auto add = [&](unsigned byte) { s += static_cast<char>(byte); };
    const auto rest = [&](unsigned shift) { add(0x80u | ((code >> shift) & 0x3fu)); };
    if (code < 0x80)
      add(code);
    else if (code < 0x800)
      add(0xc0u | (code >> 6)), rest(0);
    else if (code < 0x10000)
      add(0xe0u | (code >> 12)), rest(6), rest(0);
    else
      add(0xf0u | (code >> 18)), rest(12), rest(6), rest(0);
  }

  std::string_view text_;
  const std::string& path_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
};

}  // namespace weft::detail
WEFT_COLD_END
