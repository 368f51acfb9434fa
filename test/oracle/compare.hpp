// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>
#include <weft/weft.hpp>

namespace oracle {

using numbers = std::vector<double>;

template <class Found>
void compare(const std::string& what, const Found& found, const numbers& expected, double tolerance) {
  const numbers values(found.begin(), found.end());
  BOOST_REQUIRE_EQUAL(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    BOOST_CHECK_MESSAGE(std::abs(values[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])),
                        what << "[" << i << "]: " << values[i] << " is not " << expected[i]);
}

/// The numbers from `from` on.
template <class D>
weft::tensor<float, D> as_tensor(const numbers& values, std::size_t from = 0) {
  weft::tensor<float, D> t;
  BOOST_REQUIRE_LE(from + t.elements(), values.size());
  for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = static_cast<float>(values[from + i]);
  return t;
}

/// The weights of the sum whose gradients are compared.
template <class Y>
weft::tensor<float, weft::dims_t<Y>> weight_of(const Y&) {
  weft::tensor<float, weft::dims_t<Y>> t;
  for (std::size_t i = 0; i < t.elements(); ++i)
    t.data()[i] = static_cast<float>((static_cast<double>((i * 7919 + 124) % 257) - 128) / 64);
  return t;
}

}  // namespace oracle
