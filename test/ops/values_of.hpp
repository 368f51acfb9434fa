// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>
#include <weft/weft.hpp>

/// Named lines of numbers that another library has computed, and comparisons with them.
class values_of {
 public:
  explicit values_of(const char* path) {
    std::ifstream in(path);
    for (std::string line, name; std::getline(in, line);) {
      std::istringstream words(line);
      words >> name;
      for (std::string word; words >> word;)
        lines_[name].push_back(name == "#" ? 0 : std::strtod(word.c_str(), nullptr));
    }
  }

  const std::vector<double>& operator[](const std::string& name) const {
    const auto found = lines_.find(name);
    BOOST_REQUIRE_MESSAGE(found != lines_.end(), "no line " << name);
    return found->second;
  }

  template <class T, class Dims>
  weft::tensor<T, Dims> tensor(const std::string& name, const weft::shape& extents = Dims::spec) const {
    const std::vector<double>& line = (*this)[name];
    weft::tensor<T, Dims> t{extents};
    BOOST_REQUIRE_EQUAL(t.elements(), line.size());
    for (std::size_t i = 0; i < line.size(); ++i) t.data()[i] = static_cast<T>(line[i]);
    return t;
  }

  /// Checks the elements of a tensor, or a number.
  template <class X>
  void check(const std::string& name, const X& found, double tolerance = 1e-12) const {
    if constexpr (std::is_arithmetic_v<X>) {
      check(name, &found, 1, tolerance);
    } else {
      const auto t = weft::eval(found);
      check(name, t.data(), t.elements(), tolerance);
    }
  }

 private:
  template <class T>
  void check(const std::string& name, const T* found, std::size_t count, double tolerance) const {
    const std::vector<double>& right = (*this)[name];
    BOOST_REQUIRE_MESSAGE(count == right.size(), name << " has " << count << " elements, not " << right.size());
    for (std::size_t i = 0; i < count; ++i) {
      const double a = static_cast<double>(found[i]), b = right[i];
      const bool close = std::abs(a - b) <= tolerance * (1 + std::abs(b));
      BOOST_CHECK_MESSAGE(a == b || (a != a && b != b) || close, name << "[" << i << "] is " << a << ", not " << b);
    }
  }

  std::map<std::string, std::vector<double>> lines_;
};

/// Returns numbers from -1 to 1.002, as `made` of make_attention_values.py and make_rotary_values.py does.
template <class T, class D>
weft::tensor<T, D> made(std::int64_t salt, const weft::shape& extents) {
  weft::tensor<T, D> t{extents};
  for (std::size_t i = 0; i < t.elements(); ++i)
    t.data()[i] =
        static_cast<T>(static_cast<double>((static_cast<std::int64_t>(i) * 7919 + salt * 104729) % 2003) / 1000 - 1);
  return t;
}
