// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>
#include <vector>
#include <weft/weft.hpp>

namespace test {

/// A tensor's elements, or those of an expression over tensors, to compare them with a list.
template <class T, class D>
std::vector<T> list(const weft::tensor<T, D>& t) {
  return std::vector<T>(t.begin(), t.end());
}
template <weft::Expression E>
  requires(E::operations > 0)
auto list(const E& e) {
  return list(eval(e));
}

using floats = std::vector<float>;

}  // namespace test
