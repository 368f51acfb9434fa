// SPDX-License-Identifier: BSL-1.0
#pragma once

// Questions that tests ask of an error, and of any text.

#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <string>
#include <weft/error.hpp>

namespace test {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The text of the error that `f` throws; its code must be `code`. Any thread may ask: it throws where that does not
/// hold, since Boost.Test's checks are for the main thread alone.
template <class F>
std::string failure(weft::error_code code, F f) {
  try {
    f();
  } catch (const weft::error& e) {
    if (e.code() == code) return e.what();
    throw std::runtime_error(std::string("another code: ") + weft::name(e.code()) + ", " + e.what());
  }
  throw std::runtime_error("no error");
}

/// The code of the error that `f` throws, and what it says; 0 if it throws none.
template <class F>
weft::error_code code_of(F f, std::string* sentence = nullptr) {
  try {
    f();
  } catch (const weft::error& e) {
    if (sentence) *sentence = e.what();
    return e.code();
  }
  return static_cast<weft::error_code>(0);
}

/// For BOOST_CHECK_EXCEPTION: whether an error has the code and the words.
inline auto says(weft::error_code code, const std::string& words = "") {
  return [=](const weft::error& e) {
    BOOST_TEST_INFO(e.what());
    return e.code() == code && contains(e.what(), words);
  };
}

}  // namespace test

#define CHECK_SAYS(text, part)                                                           \
  do {                                                                                   \
    const std::string weft_text = (text), weft_part = (part);                            \
    BOOST_CHECK_MESSAGE(test::contains(weft_text, weft_part),                            \
                        "\"" << weft_text << "\" does not say \"" << weft_part << "\""); \
  } while (false)
