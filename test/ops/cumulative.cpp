// SPDX-License-Identifier: BSL-1.0
#include <cmath>
#include <limits>
#include <weft/ops/reduce/covariance.hpp>
#include <weft/ops/reduce/cummax.hpp>
#include <weft/ops/reduce/cumprod.hpp>
#include <weft/ops/reduce/logcumsumexp.hpp>
#include <weft/ops/reduce/quantile.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"

using namespace weft;

// Scans and order statistics against PyTorch (make_cumulative_values.py).

namespace {

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/cumulative_values.txt");
  return all;
}

template <class X>
void same(const std::string& name, const X& found, double tolerance = 1e-12) {
  const auto t = [&] {
    if constexpr (std::is_arithmetic_v<X>)
      return tensor<X>(found);
    else
      return eval(found);
  }();
  const std::vector<double>& expected = right()[name];
  BOOST_REQUIRE_EQUAL(t.elements(), expected.size());
  for (std::size_t i = 0; i < t.elements(); ++i) {
    const double a = static_cast<double>(t.data()[i]), b = expected[i];
    BOOST_CHECK_MESSAGE(a == b || (a != a && b != b) || std::abs(a - b) <= tolerance * (1 + std::abs(b)),
                        name << "[" << i << "] is " << a << ", not " << b);
  }
}

/// Over tensors, in a graph where the first extent has a name, and its gradient.
template <class Known, class Named, class F>
void check(const std::string& name, const char* operand, F f) {
  const auto x = right().tensor<double, Known>(operand);
  same(name, f(x));
  same(name, f(cast<float>(x)), 1e-5);
  graph g;
  const auto p = placeholder<double, Named>(g, "p");
  const auto y = let(f(p));
  const auto [d] = gradients(sum(square(y + 1)), p);
  session s{g, {.threads = 1}};
  same(name, s.eval(y, with(p, x)));
  same(name + ".gradient", s.eval(d, with(p, x)));
}
template <class F>
void of_cube(const std::string& name, F f) {
  check<dims<2, 5, 3>, dims<dyn<"n">, 5, 3>>(name, "x", f);
}
/// Along an axis of unknown extent.
template <class F>
void of_rows(const std::string& name, F f) {
  check<dims<6, 5>, dims<dyn<"n">, 5>>(name, "x", f);
}

auto special() { return right().tensor<double, dims<4, 5>>("special"); }

}  // namespace

BOOST_AUTO_TEST_CASE(cumulative_products) {
  of_cube("cumprod_0", [](const auto& x) { return cumprod(x); });
  of_cube("cumprod_1", [](const auto& x) { return cumprod<1>(x); });
  of_cube("cumprod_2", [](const auto& x) { return cumprod<-1>(x); });
  of_cube("cumprod_reverse", [](const auto& x) { return cumprod<1>(x, {.reverse = true}); });
  const auto y = cumprod<0>(tensor<std::int32_t, dims<4>>{2, 3, 0, 5}, {.exclusive = true});
  const auto z = cumprod<0>(tensor<std::int32_t, dims<4>>{2, 3, 4, 5}, {.exclusive = true, .reverse = true});
  const std::int32_t expected[] = {1, 2, 6, 0}, of_reverse[] = {60, 20, 5, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    BOOST_CHECK_EQUAL(y.data()[i], expected[i]);
    BOOST_CHECK_EQUAL(z.data()[i], of_reverse[i]);
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_cumulative_products_with_zeros) {
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true}) {
      gradient_check check;
      check.tolerance = 1e-5;
      const auto x = check.input<dims<2, 5>>(0.5, 1.5);
      check.values(0)[1] = check.values(0)[6] = check.values(0)[8] = 0;  // one zero, and two
      check("cumprod", exp(cumprod<1>(x, {exclusive, reverse}) * 0.3));
      gradient_check others;
      const auto rows = others.input<dims<dyn<"n">, 2>>(0.5, 1.5, shape(3, 2));
      others("cumprod of rows", square(cumprod<0>(rows, {exclusive, reverse})), 3);
    }
}

BOOST_AUTO_TEST_CASE(cumulative_sums_of_exponentials) {
  of_cube("logcumsumexp_0", [](const auto& x) { return logcumsumexp(x); });
  of_cube("logcumsumexp_1", [](const auto& x) { return logcumsumexp<1>(x); });
  of_cube("logcumsumexp_2", [](const auto& x) { return logcumsumexp<2>(x); });
  of_cube("logcumsumexp_reverse", [](const auto& x) { return logcumsumexp<1>(x, {.reverse = true}); });
  const auto large = right().tensor<double, dims<3, 4>>("large");
  same("logcumsumexp_special", logcumsumexp<1>(large));
  const auto first = logcumsumexp<1>(large, {.exclusive = true});
  BOOST_CHECK_EQUAL(first(2, 0), -std::numeric_limits<double>::infinity());
  BOOST_CHECK_EQUAL(first(2, 1), 700);
  graph g;
  const auto x = placeholder<double, dims<3, 4>>(g);
  const auto [d] = gradients(sum(square(logcumsumexp<1>(slice<0, 2, 1>(x)) + 1)), x);
  session s{g};
  same("logcumsumexp_large.gradient", s.eval(d, with(x, large)));
  for (const bool exclusive : {false, true}) {
    gradient_check check;
    const auto rows = check.input<dims<2, 4>>();
    const auto y = logcumsumexp<1>(rows, {exclusive, exclusive});
    check("logcumsumexp", square(slice<1, 0, 3>(y) - 1), 2);
  }
}

BOOST_AUTO_TEST_CASE(cumulative_extremes) {
  of_cube("cummax_0", [](const auto& x) { return cummax(x).values; });
  of_cube("cummax_1", [](const auto& x) { return cummax<1>(x).values; });
  of_cube("cummax_2", [](const auto& x) { return cummax<2>(x).values; });
  of_cube("cummin_0", [](const auto& x) { return cummin(x).values; });
  of_cube("cummin_1", [](const auto& x) { return cummin<1>(x).values; });
  of_cube("cummin_2", [](const auto& x) { return cummin<2>(x).values; });
  const auto x = right().tensor<double, dims<2, 5, 3>>("x");
  same("cummax_1_indices", cummax<1>(x).indices);
  same("cummax_2_indices", cummax<-1>(x).indices);
  same("cummax_special", cummax<1>(special()).values);
  same("cummax_special_indices", cummax<1>(special()).indices);
  same("cummin_special", cummin<1>(special()).values);
  same("cummin_special_indices", cummin<1>(special()).indices);
  const auto narrow = cummin<0>(tensor<std::int8_t, dims<4>>{-1, 127, -128, 3}).values;
  BOOST_CHECK_EQUAL(narrow.data()[1], -1);
  BOOST_CHECK_EQUAL(narrow.data()[3], -128);
  const auto half = cummax<0>(tensor<weft::half, dims<2>>{weft::half(2.0f), weft::half(1.0f)}).values;
  BOOST_CHECK_EQUAL(static_cast<float>(half.data()[1]), 2);
  BOOST_CHECK_EQUAL((cummax<0>(tensor<float, dims<0, 3>>()).values.elements()), 0u);
}

BOOST_AUTO_TEST_CASE(the_same_bits_with_threads) {
  const auto scans = [](int threads) {
    graph g;
    const auto x = placeholder<float, dims<50, 40, 30>>(g);
    session s{g, {.threads = threads}};
    tensor<float, dims<50, 40, 30>> t;
    const random_stream random(3, 4);
    for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = static_cast<float>(random.normal(i));
    const auto found = s.prepare(fetch(cumprod<0>(x), logcumsumexp<1>(x), cummax<2>(x).values), feed(x))(t);
    std::vector<float> all;
    std::apply([&](const auto&... y) { (all.insert(all.end(), y.begin(), y.end()), ...); }, found);
    return all;
  };
  BOOST_CHECK(scans(1) == scans(3));
}

BOOST_AUTO_TEST_CASE(quantiles) {
  using enum quantile_method;
  of_cube("quantile_linear", [](const auto& x) { return quantile<1>(x, 0.3); });
  of_cube("quantile_lower", [](const auto& x) { return quantile<1, lower>(x, 0.3); });
  of_cube("quantile_higher", [](const auto& x) { return quantile<1, higher>(x, 0.3); });
  of_cube("quantile_nearest", [](const auto& x) { return quantile<1, nearest>(x, 0.3); });
  of_cube("quantile_midpoint", [](const auto& x) { return quantile<1, midpoint>(x, 0.3); });
  of_rows("quantile_even_linear", [](const auto& x) { return quantile<0>(x, 0.3); });
  of_rows("quantile_even_lower", [](const auto& x) { return quantile<0, lower>(x, 0.3); });
  of_rows("quantile_even_higher", [](const auto& x) { return quantile<0, higher>(x, 0.3); });
  of_rows("quantile_even_nearest", [](const auto& x) { return quantile<0, nearest>(x, 0.3); });
  of_rows("quantile_even_midpoint", [](const auto& x) { return quantile<0, midpoint>(x, 0.3); });
  of_cube("quantile_all", [](const auto& x) { return quantile(x, 0.85); });
  of_cube("quantile_several", [](const auto& x) {
    const auto y = quantile<1, keep_dims>(x, tensor<double, dims<4>>{0, 0.5, 0.71, 1});
    static_assert(dims_t<decltype(y)>::rank == 4 && dims_t<decltype(y)>::spec[2] == 1);
    return y;
  });
  of_rows("median", [](const auto& x) { return median<0>(x); });
  of_rows("lower_median", [](const auto& x) { return lower_median<0>(x); });
  same("quantile_special", quantile<1>(special(), 0.25));
  static_assert(std::is_same_v<dims_t<decltype(quantile<0, keep_dims, lower>(special(), 0.5))>, dims<1, 5>>);
  static_assert(std::is_same_v<dims_t<decltype(median<keep_dims>(special()))>, dims<1, 1>>);
  BOOST_CHECK_EXCEPTION((void)quantile(special(), 1.5), error,
                        test::says(error_code::invalid_argument, "between 0 and 1"));
  BOOST_CHECK_EXCEPTION((void)median(tensor<float, dims<0>>()), error, test::says(error_code::out_of_range));
}

BOOST_AUTO_TEST_CASE(order_statistics_and_counts) {
  of_cube("kthvalue", [](const auto& x) { return kthvalue<2>(x, 2).values; });
  same("kthvalue_indices", kthvalue<-1>(right().tensor<double, dims<2, 5, 3>>("x"), 2).indices);
  BOOST_CHECK_EXCEPTION((void)kthvalue<1>(special(), 6), error, test::says(error_code::out_of_range));
  same("count_nonzero", count_nonzero<1>(special()));
  BOOST_CHECK_EQUAL((count_nonzero(tensor<bool, dims<3>>{true, false, true}).data()[0]), 2);
  check<dims<4, 5>, dims<4, 5>>("nansum", "special", [](const auto& x) { return nansum<0>(slice<0, 0, 2, 2>(x)); });
  check<dims<4, 5>, dims<4, 5>>("nanmean", "special", [](const auto& x) { return nanmean(slice<0, 0, 1>(x)); });
}

BOOST_AUTO_TEST_CASE(covariances_and_correlations) {
  of_cube("covariance", [](const auto& x) { return covariance(x); });
  of_cube("covariance_biased", [](const auto& x) { return covariance<biased>(squeeze<0>(slice<0, 0, 1>(x))); });
  of_cube("correlation", [](const auto& x) { return correlation(squeeze<0>(slice<0, 1, 1>(x))); });
}
