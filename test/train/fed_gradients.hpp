// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <weft/tensor/tensor.hpp>

// Values that the scripts make_*.py beside this file compute too, and how their results are read.
namespace test {

/// The gradients that make_adam_values.py, make_norm_values.py and make_optimizer_values.py have: of several sizes,
/// some 0.
template <class T>
weft::tensor<T, weft::dims<4>> gradient_of(int step) {
  weft::tensor<T, weft::dims<4>> g;
  const double sizes[] = {1, 0x1p-10, 0x1p6, 0x1p-20};
  for (int i = 0; i < 4; ++i)
    g(i) = static_cast<T>((step + i) % 7 == 3 ? 0 : ((step * 7919 + i * 31) % 257 - 128) / 64.0 * sizes[i]);
  return g;
}

/// Which rows of a table a step reads: 5, 1, none or `most`, the i-th of them `number(i)`.
template <class Batch, class Number>
weft::tensor<std::int32_t, Batch> row_numbers(int step, int most, Number number) {
  const int counts[] = {5, 1, 0, most};
  weft::tensor<std::int32_t, Batch> n(weft::shape{counts[step % 4]});
  for (int i = 0; i < static_cast<int>(n.elements()); ++i) n.data()[i] = number(i);
  return n;
}

/// By what a step multiplies the rows that it reads.
template <class Rows>
weft::tensor<float, Rows> row_weights(int step, std::size_t count, int shift = 0) {
  weft::tensor<float, Rows> x(weft::shape(static_cast<std::int64_t>(count), 3));
  for (int i = 0; i < static_cast<int>(x.elements()); ++i)
    x.data()[i] = static_cast<float>((step * 31 + i / 3 * 7 + i % 3 * 13 + shift) % 17 - 8) / 16;
  return x;
}

/// A table's rows before the first step.
inline weft::tensor<float, weft::dims<7, 3>> first_rows() {
  weft::tensor<float, weft::dims<7, 3>> first;
  for (int i = 0; i < 21; ++i) first.data()[i] = static_cast<float>(i - 10) / 4;
  return first;
}

/// A file of values, behind its first line if that is a remark.
inline std::ifstream opened(const std::string& file) {
  std::ifstream in(TEST_DATA "/train/" + file);
  BOOST_REQUIRE_MESSAGE(in, file << " cannot be read");
  std::string line;
  if (in.peek() == '#') std::getline(in, line);
  return in;
}

/// Reads as many numbers as there are values: how far the two are apart at most, in proportion to 1 and the number.
template <class T>
double distance(std::istream& in, const T* values, std::size_t count) {
  double most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::string word;
    BOOST_REQUIRE((in >> word));
    const double expected = std::strtod(word.c_str(), nullptr);
    const double apart = std::abs(static_cast<double>(values[i]) - expected) / std::max(1.0, std::abs(expected));
    most = apart <= most ? most : apart;  // also where one is not a number
  }
  return most;
}

}  // namespace test
