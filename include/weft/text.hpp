// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>

#include <weft/config.hpp>

namespace weft {

/// A piece of a message: text or an integer. Refers to the text that it is constructed from.
class piece {
 public:
  constexpr piece(const char* words) : words_(words), size_(__builtin_strlen(words)) {}
  piece(const std::string& words) : words_(words.data()), size_(words.size()) {}
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  constexpr piece(T number)
      : negative_(number < T(1) && number != T(0)),
        number_(negative_ ? 0 - static_cast<unsigned long long>(number) : static_cast<unsigned long long>(number)) {}

  void append_to(std::string& s) const;

 private:
  const char* words_ = nullptr;
  std::size_t size_ = 0;
  bool negative_ = false;
  unsigned long long number_ = 0;
};

// Functions, because the compiler would expand every chain of operator+ anew.
/// Appends the pieces.
void append(std::string& to, std::initializer_list<piece> pieces);

/// Returns the concatenated pieces.
std::string str_cat(std::initializer_list<piece> pieces);

/// Formats a number as printf does in the C locale, regardless of the program's locale: `format_number("%.*g", 6, x)`.
std::string format_number(const char* format, int precision, double number);

#if WEFT_DEFINITIONS

WEFT_COLD_BEGIN

WEFT_DECL void piece::append_to(std::string& s) const {
  if (words_) return static_cast<void>(s.append(words_, size_));
  char digits[21];
  char* first = digits + sizeof digits;
  unsigned long long n = number_;
  do *--first = static_cast<char>('0' + n % 10);
  while (n /= 10);
  if (negative_) *--first = '-';
  s.append(first, static_cast<std::size_t>(digits + sizeof digits - first));
}

__attribute__((noinline)) WEFT_DECL void append(std::string& to, std::initializer_list<piece> pieces) {
  for (const piece& p : pieces) p.append_to(to);
}

__attribute__((noinline)) WEFT_DECL std::string str_cat(std::initializer_list<piece> pieces) {
  std::string s;
  append(s, pieces);
  return s;
}

__attribute__((noinline)) WEFT_DECL std::string format_number(const char* format, int precision, double number) {
  char text[400];  // "%.*f" of the largest double has 309 digits before its point
  const int size = __builtin_snprintf(text, sizeof text, format, precision, number);
  std::string s;
  bool in_point = false;  // a locale's decimal point, which can be several bytes
  for (int i = 0; i < size && i < static_cast<int>(sizeof text) - 1; ++i) {
    const char c = text[i];
    const bool other = !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '+' || c == '-');
    if (!other)
      s += c;
    else if (!in_point)
      s += '.';
    in_point = other;
  }
  return s;
}

WEFT_COLD_END

#endif

}  // namespace weft
