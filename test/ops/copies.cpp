// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/arrays/reverse.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/arrays/transpose.hpp>

#include "elements.hpp"
#include "errors.hpp"
#include "gradient_check.hpp"

using namespace weft;
using test::check_elements;

namespace {

template <class D>
tensor<float, D> counting(const shape& extents, float from = 1) {
  tensor<float, D> x(extents);
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = from + static_cast<float>(i);
  return x;
}

}  // namespace

#if !defined(__CUDACC__)  // nvcc writes down the types of such sums by names that it gives nowhere
BOOST_AUTO_TEST_CASE(types_of_results) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"left">, 4>>(g), y = placeholder<float, dims<dyn<"left">, 4>>(g);
  const auto z = placeholder<float, dims<dyn<"right">, 4>>(g);
  static_assert(std::is_same_v<dims_t<decltype(concat<0>(x, z))>, dims<dyn<"left"> + dyn<"right">, 4>>);
  static_assert(std::is_same_v<dims_t<decltype(concat<0>(x, y))>, dims<dyn<"left"> + dyn<"left">, 4>>);
  static_assert(std::is_same_v<dims_t<decltype(concat<-1>(x, y, x))>, dims<dyn<"left">, 12>>);
  static_assert(std::is_same_v<dims_t<decltype(slice<1, 1, 2>(x))>, dims<dyn<"left">, 2>>);
  static_assert(std::is_same_v<dims_t<decltype(pad<-2, 1, 1>(x))>, dims<dyn<"left"> + extent<2>, 4>>);
  static_assert(std::is_same_v<dims_t<std::tuple_element_t<3, decltype(split<1, 4>(x))>>, dims<dyn<"left">, 1>>);
}
#endif

BOOST_AUTO_TEST_CASE(over_tensors) {
  const tensor<float, dims<2, 2>> a{1, 2, 3, 4};
  const tensor<float, dims<2, 1>> b{5, 6};
  const auto c = concat<1>(a, b);
  check_elements(c, {1, 2, 5, 3, 4, 6});
  check_elements(concat<0>(a, a * 10.0f), {1, 2, 3, 4, 10, 20, 30, 40});
  check_elements(slice<1, 1, 2>(c), {2, 5, 4, 6});
  check_elements(slice<0, 1, 1>(c), {3, 4, 6});
  check_elements(slice<0, 2, 0>(c), {});
  check_elements(pad<1, 1, 2>(b), {0, 5, 0, 0, 0, 6, 0, 0});
  check_elements(pad<0, 1, 0>(tensor<std::int8_t, dims<1, 2>>{7, 8}), {0, 0, 7, 8});
  check_elements(concat<0>(tensor<bool, dims<1>>{true}, tensor<bool, dims<2>>{false, true}), {1, 0, 1});
  check_elements(concat<0>(counting<dims<dyn<"n">>>(shape(2)), counting<dims<dyn<"m">>>(shape(1))), {1, 2, 1});
}

BOOST_AUTO_TEST_CASE(parts_of_tensors) {
  const auto x = counting<dims<2, 3, 2>>(shape(2, 3, 2));
  const auto [top, bottom] = split<0, 2>(x);
  check_elements(bottom, {7, 8, 9, 10, 11, 12});
  const auto [a, b, c] = split<-2, 3>(x * 2.0f);
  static_assert(std::is_same_v<dims_t<decltype(b)>, const dims<2, 1, 2>> ||
                std::is_same_v<dims_t<decltype(b)>, dims<2, 1, 2>>);
  check_elements(b, {6, 8, 18, 20});
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { static_cast<void>(split<0, 2>(counting<dims<dyn<"n">>>(shape(3)))); }),
             "axis 0 of [3] cannot be split into 2 equal parts");
}

BOOST_AUTO_TEST_CASE(axes_in_the_middle) {
  const auto x = counting<dims<2, 3, 2>>(shape(2, 3, 2));
  check_elements(slice<1, 1, 1>(x), {3, 4, 9, 10});
  check_elements(concat<1>(slice<1, 2, 1>(x), slice<1, 0, 2>(x)), {5, 6, 1, 2, 3, 4, 11, 12, 7, 8, 9, 10});
  check_elements(pad<1, 0, 1>(slice<1, 0, 1>(x)), {1, 2, 0, 0, 7, 8, 0, 0});
}

// numpy.flip of numpy.arange(1, 13).reshape(2, 3, 2), and its slices by steps, by NumPy 2.
BOOST_AUTO_TEST_CASE(backwards_and_by_steps) {
  const auto x = counting<dims<2, 3, 2>>(shape(2, 3, 2));
  check_elements(reverse<0>(x), {7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6});
  check_elements(reverse<1>(x), {5, 6, 3, 4, 1, 2, 11, 12, 9, 10, 7, 8});
  check_elements(reverse<-1>(x), {2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11});
  check_elements(reverse<0, 2>(x), {8, 7, 10, 9, 12, 11, 2, 1, 4, 3, 6, 5});
  check_elements(reverse<2, 1>(x), {6, 5, 4, 3, 2, 1, 12, 11, 10, 9, 8, 7});
  check_elements(reverse(x), {12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1});
  check_elements(slice<1, 0, 2, 2>(x), {1, 2, 5, 6, 7, 8, 11, 12});
  check_elements(slice<1, 2, 2, -2>(x), {5, 6, 1, 2, 11, 12, 7, 8});
  check_elements(slice<2, 1, 2, -1>(x), {2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11});
  check_elements(slice<0, 1, 1, -5>(x), {7, 8, 9, 10, 11, 12});
  check_elements(slice<0, 2, 0, -1>(x), {});
  check_elements(reverse(tensor<std::int8_t, dims<3>>{1, 2, 3}), {3, 2, 1});
  check_elements(reverse(tensor<bool, dims<2, 1>>{true, false}), {0, 1});
  check_elements(reverse(tensor<double, dims<1, 1>>{4}), {4});
  check_elements(reverse<0>(counting<dims<dyn<"n">, 2>>(shape(0, 2))), {});
  check_elements(reverse(tensor<float, dims<>>(5)), {5});
  const auto n = counting<dims<dyn<"n">>>(shape(4));
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(slice<0, 5, 2, -2>(n)); }),
             "elements 5 to 1 by steps of -2 are out of range for axis 0 of [4]");
}

// Larger than a chunk of a thread, a square of a transpose and 16 bytes at once, of all widths of elements.
template <class T>
void check_backwards() {
  using D = dims<dyn<"n">, 5, 64>;
  graph g;
  const auto x = placeholder<T, D>(g, "x");
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(reverse<0>(x), reverse<1>(x), reverse<2>(x), reverse(x), slice<1, 4, 2, -3>(x)), feed(x));
  for (const int n : {1, 7, 600}) {
    tensor<T, D> given(shape(n, 5, 64));
    for (std::size_t i = 0; i < given.elements(); ++i) given.data()[i] = static_cast<T>(i * 7919 % 251);
    const auto [a, b, c, d, e] = step(given);
    std::size_t wrong = 0;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 5; ++j)
        for (int k = 0; k < 64; ++k) {
          wrong += a(i, j, k) != given(n - 1 - i, j, k) || b(i, j, k) != given(i, 4 - j, k) ||
                   c(i, j, k) != given(i, j, 63 - k) || d(i, j, k) != given(n - 1 - i, 4 - j, 63 - k);
          if (j < 2) wrong += e(i, j, k) != given(i, 4 - 3 * j, k);
        }
    BOOST_CHECK_EQUAL(wrong, 0u);
  }
}

BOOST_AUTO_TEST_CASE(backwards_in_steps_of_any_extent) {
  check_backwards<float>();
  check_backwards<double>();
  check_backwards<std::uint8_t>();
  check_backwards<std::int16_t>();
}

BOOST_AUTO_TEST_CASE(gradients_backwards_and_by_steps) {
  {
    gradient_check check;
    const auto x = check.input<dims<2, 3, 4>>();
    check("reverse", reverse<0, 2>(x) * x);
    check("by steps", square(slice<2, 3, 2, -2>(x)) * slice<2, 0, 2, 3>(x));
  }
  {
    gradient_check check;
    const auto x = check.input<dims<dyn<"n">, 3>>(-2, 2, shape(4, 3));
    check("reverse of a named extent", square(reverse(x)) * x);
  }
}

BOOST_AUTO_TEST_CASE(in_a_step_whose_extents_change) {
  using left = dims<dyn<"left">, 3>;
  using right = dims<dyn<"right">, 3>;
  graph g;
  const auto x = placeholder<float, left>(g, "x");
  const auto y = placeholder<float, right>(g, "y");
  const auto all = concat<0>(x, y * 2.0f);
  const auto [first, second, third] = split<1, 3>(all);
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(all, first + third, sum(second)), feed(x, y));
  for (const auto& [n, m] : {std::pair(1, 2), std::pair(2000, 1), std::pair(0, 3), std::pair(3, 0)}) {
    const auto a = counting<left>(shape(n, 3));
    const auto b = counting<right>(shape(m, 3), 5);
    const auto [joined, outer, total] = step(a, b);
    BOOST_REQUIRE_EQUAL(joined.extent(0), n + m);
    double right_total = 0;
    for (int i = 0; i < n + m; ++i) {
      const auto at = [&, rows = n](int k) { return i < rows ? a(i, k) : 2 * b(i - rows, k); };
      for (int k = 0; k < 3; ++k) BOOST_REQUIRE_EQUAL(joined(i, k), at(k));
      BOOST_REQUIRE_EQUAL(outer(i, 0), at(0) + at(2));
      right_total += static_cast<double>(at(1));
    }
    BOOST_CHECK_CLOSE(static_cast<double>(total), right_total, 1e-4);
  }
}

BOOST_AUTO_TEST_CASE(derivatives) {
  gradient_check check;
  const auto x = check.input<dims<2, 3>>();
  const auto y = check.input<dims<2, 1>>();
  const auto w = check.input<dims<2, 4>>();
  check("concat", concat<1>(x, y) * w, 3);
  check("concat of one with itself", concat<0>(w * w, w), 2);
  const auto [l, r] = split<1, 2>(w);
  check("split", l * l * r, 3);
  check("a part alone", r * r, 2);
  check("slice", slice<1, 1, 2>(w) * l, 2);
  check("pad", pad<1, 1, 1>(l) * w, 2);
  const auto v = check.input<dims<dyn<"rows">, 2>>(-1, 1, shape(3, 2));
  check("a named extent", sum<0>(concat<0>(v, v * v)), 2);
}

BOOST_AUTO_TEST_CASE(run_time_extents_that_do_not_fit) {
  const auto x = counting<dims<dyn<"n">, 2>>(shape(3, 2));
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(slice<0, 2, 2>(x)); }),
             "elements 2 to 4 are out of range for axis 0");
  graph g;
  const auto y = placeholder<float, dims<dyn<"n">, 2>>(g, "y");
  const auto [a, b] = split<0, 2>(y);
  session s{g, {.threads = 1}};
  BOOST_CHECK_EQUAL(s.run(fetch(b), with(y, counting<dims<dyn<"n">, 2>>(shape(4, 2))))(0, 0), 5);
  BOOST_CHECK_THROW(static_cast<void>(s.run(fetch(a), with(y, x))), error);
}
