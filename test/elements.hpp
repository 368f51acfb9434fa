// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <boost/test/unit_test.hpp>
#include <initializer_list>

namespace test {

/// The elements of a tensor, one by one.
template <class Tensor>
void check_elements(const Tensor& x, std::initializer_list<double> right) {
  BOOST_REQUIRE_EQUAL(x.elements(), right.size());
  std::size_t i = 0;
  for (const double e : right) BOOST_CHECK_EQUAL(static_cast<double>(x.data()[i++]), e);
}

}  // namespace test
