// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <weft/weft.hpp>

/// What PyTorch computed: the numbers of a file, and those that make_sequence_values.py began with.
namespace sequence_values {

inline const std::vector<double>& expected(const std::string& name, const std::string& file = "sequence_values.txt") {
  static const std::map<std::string, std::vector<double>> all = [&] {  // a program reads one file
    std::map<std::string, std::vector<double>> found;
    std::ifstream in(TEST_DATA "/nn/" + file);
    BOOST_REQUIRE_MESSAGE(in, TEST_DATA "/nn/" + file + " cannot be read");
    std::string line, word;
    std::getline(in, line);  // where it comes from
    while (std::getline(in, line)) {
      std::istringstream words(line);
      words >> word;
      std::vector<double>& numbers = found[word];
      while (words >> word) numbers.push_back(std::strtod(word.c_str(), nullptr));
    }
    return found;
  }();
  const auto at = all.find(name);
  BOOST_REQUIRE_MESSAGE(at != all.end() && !at->second.empty(), file + " has no numbers under " << name);
  return at->second;
}

/// From element `first` on of the script's numbers.
template <class T, class D>
weft::tensor<T, D> numbers(int which, const weft::shape& extents, double scale = 257, std::size_t first = 0) {
  weft::tensor<T, D> t(extents);
  for (std::size_t i = 0; i < t.elements(); ++i) {
    const auto n = static_cast<std::int64_t>((first + i) * 7919) + 31 * which;
    t.data()[i] = static_cast<T>(static_cast<double>(n % 257 - 128) / scale);
  }
  return t;
}

/// Compares with the numbers under a name, from element `first` on.
template <class T, class D>
void close(const std::string& name, const weft::tensor<T, D>& found, std::size_t first = 0) {
  const std::vector<double>& values = expected(name);
  BOOST_REQUIRE_LE(first + found.elements(), values.size());
  const double tolerance = std::is_same_v<T, double> ? 1e-12 : 2e-5;
  for (std::size_t i = 0; i < found.elements(); ++i)
    BOOST_CHECK_MESSAGE(std::abs(static_cast<double>(found.data()[i]) - values[first + i]) <=
                            tolerance * (1 + std::abs(values[first + i])),
                        name << "[" << first + i << "]: " << found.data()[i] << " is not " << values[first + i]);
}

}  // namespace sequence_values
