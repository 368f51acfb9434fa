// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>
#include <weft/ops/reduce/scan.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/weft.hpp>

#include "oracle/compare.hpp"
#include "oracle/row_values.hpp"

using namespace weft;

// Running sums and sorts against TensorFlow; see make_row_values.py. Floats hold all that is compared exactly.

namespace {

using oracle::as_tensor;
using oracle::numbers;
using oracle::weight_of;
using block = dims<2, 5, 3>;

/// The value of f(x), and the gradient of sum(value * weight).
template <class F>
void check(const std::string& name, F f, const numbers& value, const numbers& d_x) {
  graph g;
  const auto x = variable<float, block>(g, "x", as_tensor<block>(oracle::rows::x));
  const auto y = let(f(x));
  const auto [dx] = gradients(sum(y * weight_of(y)), x);
  session s{g};
  const auto [found, found_x] = s.prepare(fetch(y, dx), feed())();
  oracle::compare(name, found, value, 0);
  oracle::compare(name + ", gradient", found_x, d_x, 0);
  oracle::compare(name + " of a tensor", f(as_tensor<block>(oracle::rows::x)), value, 0);
}

/// Numbers of elements, few of which differ.
template <class F>
void check_indices(const std::string& name, F f, const numbers& x, const numbers& expected) {
  graph g;
  const auto fed = placeholder<float, block>(g);
  session s{g};
  oracle::compare(name, s.prepare(fetch(f(fed)), feed(fed))(as_tensor<block>(x)), expected, 0);
  oracle::compare(name + " of a tensor", f(as_tensor<block>(x)), expected, 0);
}

}  // namespace

#define CUMSUM(axis, exclusive, reverse)                          \
  check(                                                          \
      "cumsum<" #axis "> " #exclusive #reverse,                   \
      [](const auto& x) {                                         \
        return cumsum<axis>(x, {exclusive, reverse});             \
      },                                                          \
      oracle::rows::cumsum_##axis##_##exclusive##reverse##_value, \
      oracle::rows::cumsum_##axis##_##exclusive##reverse##_d_x)

BOOST_AUTO_TEST_CASE(running_sums) {
  CUMSUM(0, 0, 0), CUMSUM(0, 0, 1), CUMSUM(0, 1, 0), CUMSUM(0, 1, 1);
  CUMSUM(1, 0, 0), CUMSUM(1, 0, 1), CUMSUM(1, 1, 0), CUMSUM(1, 1, 1);
  CUMSUM(2, 0, 0), CUMSUM(2, 0, 1), CUMSUM(2, 1, 0), CUMSUM(2, 1, 1);
}

#define SORT(axis, d)                                                                                            \
  check(                                                                                                         \
      "sort<" #axis "> " #d, [](const auto& x) { return sort<axis>(x, direction::d); },                          \
      oracle::rows::sort_##axis##_##d##_value, oracle::rows::sort_##axis##_##d##_d_x);                           \
  check_indices(                                                                                                 \
      "argsort<" #axis "> " #d, [](const auto& x) { return argsort<axis>(x, direction::d); }, oracle::rows::few, \
      oracle::rows::argsort_##axis##_##d)

BOOST_AUTO_TEST_CASE(sorts) {
  SORT(0, ascending);
  SORT(0, descending);
  SORT(1, ascending);
  SORT(1, descending);
  SORT(2, ascending);
  SORT(2, descending);
  const auto values = [](const auto& x) { return top_k<2>(x).values; };
  const auto indices = [](const auto& x) { return top_k<2>(x).indices; };
  check("top_k<2>", values, oracle::rows::top_2_value, oracle::rows::top_2_d_x);
  check_indices("numbers of top_k<2>", indices, oracle::rows::x, oracle::rows::top_2_indices);
  check_indices("numbers of top_k<2> of equals", indices, oracle::rows::few, oracle::rows::top_2_of_few);
}
