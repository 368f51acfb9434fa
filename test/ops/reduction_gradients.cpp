// SPDX-License-Identifier: BSL-1.0
#include <cmath>
#include <limits>

#include "ops/gradient_check.hpp"

using namespace weft;

namespace {

using box = dims<2, 3, 4>;

/// A reduction over every choice of axes: they are data of the kernel, not part of its type.
template <class F>
void over_axes(const std::string& name, F reduce, int order = 2) {
  const auto one = [&]<int... Axes>(const std::string& axes, std::integer_sequence<int, Axes...>) {
    gradient_check check;
    check(name + " over " + axes, reduce.template operator()<Axes...>(check.input<box>(0.5, 2)), order);
  };
  one("all", std::integer_sequence<int>{});
  one("the first", std::integer_sequence<int, 0>{});
  one("the middle", std::integer_sequence<int, 1>{});
  one("the last", std::integer_sequence<int, -1>{});
  one("the outer two", std::integer_sequence<int, 0, 2>{});
  one("the inner two", std::integer_sequence<int, 1, 2>{});
}

}  // namespace

BOOST_AUTO_TEST_CASE(plain_reductions) {
  over_axes("sum", []<int... A>(auto x) { return sum<A...>(x); });
  over_axes("mean", []<int... A>(auto x) { return mean<A...>(x); });
  over_axes("product", []<int... A>(auto x) { return prod<A...>(x); }, 3);
  over_axes("max", []<int... A>(auto x) { return max<A...>(x); });
  over_axes("min", []<int... A>(auto x) { return min<A...>(x); });
}

BOOST_AUTO_TEST_CASE(reductions_that_fuse_what_they_reduce) {
  over_axes("mean of squares", []<int... A>(auto x) { return mean<A...>(square(x)); }, 3);
  over_axes("sum of x log x", []<int... A>(auto x) { return sum<A...>(x * log(x)); });
  over_axes("max of sines", []<int... A>(auto x) { return max<A...>(x * exp(-x)); });
  over_axes("product of roots", []<int... A>(auto x) { return prod<A...>(sqrt(x)); });
}

BOOST_AUTO_TEST_CASE(reductions_of_broadcasts) {
  const auto pair = []<class A, class B>(const std::string& name, A, B) {
    gradient_check check;
    const auto a = check.input<A>(0.5, 2);
    const auto b = check.input<B>(0.5, 2);
    check("mean " + name, mean<1>(a * b), 3);
    check("sum " + name, sum(a * b));
    check("max " + name, max<0>(a * b));
  };
  pair("of a row", dims<3, 4>{}, dims<4>{});
  pair("of a column", dims<3, 4>{}, dims<3, 1>{});
  pair("of both", dims<3, 1>{}, dims<1, 4>{});
  pair("of a scalar", dims<3, 4>{}, dims<>{});
}

BOOST_AUTO_TEST_CASE(dynamic_extents) {
  gradient_check check;
  const auto x = check.input<dims<dyn<"batch">, 3>>(0.5, 2, shape(4, 3));
  const auto w = check.input<dims<3>>(0.5, 2);
  check("mean over a dynamic axis", mean<0>(x * w));
  check("mean over all", mean(square(x / w)), 3);
  check("mean beside a dynamic axis", mean<1>(exp(x * w)));
  check("max over a dynamic axis", max<0>(x * w));
  check("broadcast over a dynamic axis", (x - mean<0>(x)) / w);
}

BOOST_AUTO_TEST_CASE(equal_maxima_share_the_gradient) {
  graph g;
  const auto x = placeholder<double, dims<4>>(g);
  const auto [d_max] = gradients(max(x), x);
  const auto [d_min] = gradients(min(x), x);
  session s{g, {.threads = 1}};
  const auto [high, low] = s.run(fetch(d_max, d_min), with(x, tensor<double, dims<4>>{1, 3, 3, 1}));
  for (int i = 0; i < 4; ++i) {
    BOOST_CHECK_EQUAL(high(i), i == 1 || i == 2 ? 0.5 : 0);
    BOOST_CHECK_EQUAL(low(i), i == 0 || i == 3 ? 0.5 : 0);
  }
}

BOOST_AUTO_TEST_CASE(a_product_with_zeros_has_gradients) {
  graph g;
  const auto x = placeholder<double, dims<2, 3>>(g);
  const auto [dx] = gradients(prod<1>(x), x);
  session s{g, {.threads = 1}};
  const auto d = s.eval(dx, with(x, tensor<double, dims<2, 3>>{2, 0, 3, 0, 5, 0}));
  const double expected[] = {0, 6, 0, 0, 0, 0};
  for (int i = 0; i < 6; ++i) BOOST_CHECK_EQUAL(d.data()[i], expected[i]);
}

// By TensorFlow's rule, products of the others from both ends: nothing is divided, so that it shows neither what one
// element is nor that the whole overflows, or goes under.
BOOST_AUTO_TEST_CASE(a_product_with_what_is_not_usual_has_gradients) {
  const float infinite = std::numeric_limits<float>::infinity();
  using rows = tensor<float, dims<8, 4>>;
  const rows values{2,        3,      -4,     5,                                   // as usual
                    0,        2,      3,      4,                                   // a zero
                    0,        2,      0,      4,                                   // two
                    infinite, 2,      -3,     4,                                   // an infinity
                    infinite, 2,      3,      -infinite, 1e30f, 1e30f, 1e-30f, 2,  // overflows on the way: 2e30
                    1e-30f,   1e-30f, 1e30f,  3,                                   // and underflows
                    1e-20f,   0,      1e-20f, 1e20f};
  graph g;
  const auto x = placeholder<float, dims<8, 4>>(g);
  const auto [by_row] = gradients(sum(prod<1>(x)), x);
  const auto [by_column] = gradients(sum(prod<0>(transpose<1, 0>(x))), x);
  const auto [of_negatives] = gradients(sum(prod<1>(-x)), x);
  session s{g, {.threads = 1}};
  const auto [a, b, c] = s.run(fetch(by_row, by_column, of_negatives), with(x, values));
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 4; ++j) {
      double others = 1;
      for (int k = 0; k < 4; ++k) others *= k == j ? 1 : double{values(i, k)};
      const float expected = static_cast<float>(others);
      BOOST_TEST_CONTEXT("row " << i << ", element " << j) {
        for (const float found : {a(i, j), b(i, j), c(i, j)})
          if (!std::isfinite(expected))
            BOOST_CHECK_EQUAL(found, expected);
          else
            BOOST_CHECK_SMALL(double{found} - others, 1e-6 * std::abs(others) + 1e-40);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_product_over_several_axes_with_zeros_has_gradients) {
  graph g;
  const auto x = placeholder<double, dims<3, 2, 4>>(g);
  const auto [dx] = gradients(sum(prod<0, 2>(x)), x);
  const auto [all] = gradients(prod(x), x);
  session s{g, {.threads = 2}};
  for (const int zeros : {0, 1, 2, 3}) {
    tensor<double, dims<3, 2, 4>> values;
    for (int i = 0; i < 24; ++i) values.data()[i] = i % 7 < zeros && i % 3 == 0 ? 0 : 1 + 0.1 * (i % 5);
    const auto [some, whole] = s.run(fetch(dx, all), with(x, values));
    for (int i = 0; i < 24; ++i) {
      double others = 1, all_others = 1;
      for (int k = 0; k < 24; ++k) {
        if (k == i) continue;
        all_others *= values.data()[k];
        if (k / 4 % 2 == i / 4 % 2) others *= values.data()[k];
      }
      BOOST_CHECK_SMALL(some.data()[i] - others, 1e-12 * (1 + others));
      BOOST_CHECK_SMALL(whole.data()[i] - all_others, 1e-12 * (1 + all_others));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_product_with_zeros_has_second_gradients) {
  for (const int zeros : {0, 1, 2, 3}) {
    gradient_check check;
    const auto x = check.input<dims<2, 4>>();
    for (int i = 0; i < zeros; ++i) check.values(0)[static_cast<std::size_t>(2 * i)] = 0;  // 0, 2 and 4, of two rows
    check("product with " + std::to_string(zeros) + " zeros", prod<1>(x), zeros < 3 ? 3 : 2);
  }
  graph g;
  const auto x = placeholder<double, dims<2>>(g);
  const auto [dx] = gradients(prod(x), x);
  const auto [row] = gradients(sum(dx * tensor<double, dims<2>>{0, 1}), x);
  session s{g, {.threads = 1}};
  const auto h = s.eval(row, with(x, tensor<double, dims<2>>{0, 2}));
  BOOST_CHECK_EQUAL(h(0), 1);
  BOOST_CHECK_EQUAL(h(1), 0);
}
