// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <utility>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using test::says;

namespace {

// The known answers that Random123 is published with (tests/kat_vectors, philox4x32 10).
constexpr bool gives(philox p, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return p.word[0] == a && p.word[1] == b && p.word[2] == c && p.word[3] == d;
}
static_assert(gives(philox(0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
static_assert(gives(philox(~0ull, ~0ull, ~0ull), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
static_assert(gives(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88), 0xd16cfe09, 0x94fdcceb,
                    0x5001e420, 0x24126ea1));

struct moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, low = 1e300, high = -1e300;
};

template <class F>
moments measure(F draw, int n = 200000) {
  moments m;
  for (int i = 0; i < n; ++i) {
    const double x = draw(static_cast<std::uint64_t>(i));
    m.mean += x / n;
    m.low = std::min(m.low, x);
    m.high = std::max(m.high, x);
  }
  for (int i = 0; i < n; ++i) {
    const double d = draw(static_cast<std::uint64_t>(i)) - m.mean;
    m.variance += d * d / n;
    m.skew += d * d * d / n;
    m.kurtosis += d * d * d * d / n;
  }
  m.skew /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  return m;
}

}  // namespace

BOOST_AUTO_TEST_CASE(uniform_numbers) {
  const random_stream r(7, 1);
  const auto m = measure([&](auto i) { return r.uniform(i); });
  BOOST_CHECK_SMALL(m.mean - 0.5, 0.003);
  BOOST_CHECK_SMALL(m.variance - 1.0 / 12, 0.001);
  BOOST_CHECK_SMALL(m.kurtosis - 1.8, 0.02);
  BOOST_CHECK(m.low > 0 && m.low < 1e-4 && m.high < 1 && m.high > 1 - 1e-4);
}

// One of 2^25 floats, or of 2^12 halves, would be rounded up to the end of the interval.
BOOST_AUTO_TEST_CASE(uniform_elements_stay_below_the_end) {
  const random_stream r(7, 1);
  int moved = 0, wrong = 0;
  for (const auto& [low, high] : {std::pair(0.0, 1.0), std::pair(-3.0, -1.0), std::pair(-1.0, 0.0)})
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      const double x = low + (high - low) * r.uniform(i), y = r.uniform(i, low, high, dtype::float16);
      const float before = half(static_cast<float>(x)), after = half(static_cast<float>(y));
      wrong += double{after} >= high || double{after} < low || (double{before} < high && x != y);
      moved += x != y;
    }
  BOOST_CHECK_EQUAL(wrong, 0);
  BOOST_CHECK_GT(moved, 10);
  for (std::uint64_t i = 0; i < 1000; ++i)  // two floats from 1 on, then the end
    BOOST_REQUIRE_LT(static_cast<float>(r.uniform(i, 1, 1.0000002, dtype::float32)), 1.0000002f);
}

BOOST_AUTO_TEST_CASE(normal_numbers) {
  const random_stream r(7, 2);
  const auto m = measure([&](auto i) { return r.normal(i); });
  BOOST_CHECK_SMALL(m.mean, 0.01);
  BOOST_CHECK_SMALL(m.variance - 1, 0.02);
  BOOST_CHECK_SMALL(m.skew, 0.03);
  BOOST_CHECK_SMALL(m.kurtosis - 3, 0.1);
  int beyond_one = 0, beyond_three = 0;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    beyond_one += std::abs(r.normal(i)) > 1;
    beyond_three += std::abs(r.normal(i)) > 3;
  }
  BOOST_CHECK_SMALL(beyond_one / 200000.0 - 0.3173, 0.005);
  BOOST_CHECK_SMALL(beyond_three / 200000.0 - 0.0027, 0.0006);
}

BOOST_AUTO_TEST_CASE(truncated_normal_numbers) {
  const random_stream r(7, 3);
  const auto m = measure([&](auto i) { return r.truncated_normal(i); });
  BOOST_CHECK(m.low >= -2 && m.high <= 2 && m.low < -1.99 && m.high > 1.99);
  BOOST_CHECK_SMALL(m.mean, 0.01);
  BOOST_CHECK_SMALL(std::sqrt(m.variance) - 0.87962566103423978, 0.005);
}

BOOST_AUTO_TEST_CASE(streams_differ) {
  const random_stream a(1, 1), b(1, 2), c(2, 1);
  double ab = 0, ac = 0, next = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    ab += a.normal(i) * b.normal(i) / 100000;
    ac += a.normal(i) * c.normal(i) / 100000;
    next += a.normal(i) * a.normal(i + 1) / 100000;
  }
  BOOST_CHECK_SMALL(ab, 0.015);
  BOOST_CHECK_SMALL(ac, 0.015);
  BOOST_CHECK_SMALL(next, 0.015);
}

// First values depend on the graph's seed, the variable's name and the element, and on nothing else.
BOOST_AUTO_TEST_CASE(first_values_of_variables) {
  const auto first = [](std::uint64_t seed, const char* before, int threads) {
    graph g(seed);
    if (before) static_cast<void>(variable<float, dims<7>>(g, before, init::normal{}));
    const auto w = variable<float, dims<300, 70>>(g, "w", init::normal{.mean = 1, .stddev = 0.5});
    session s{g, {.threads = threads}};
    const tensor<float, dims<300, 70>> value = s.eval(w);
    return value;
  };
  const auto same = [](const auto& a, const auto& b) { return std::equal(a.begin(), a.end(), b.begin()); };
  const auto w = first(1, nullptr, 1);
  BOOST_CHECK(same(w, first(1, "another", 3)));
  BOOST_CHECK(!same(w, first(2, nullptr, 1)));
  double mean = 0, square = 0;
  for (const float x : w) mean += x / 21000, square += x * x / 21000;
  BOOST_CHECK_SMALL(mean - 1, 0.02);
  BOOST_CHECK_SMALL(std::sqrt(square - mean * mean) - 0.5, 0.02);
}

BOOST_AUTO_TEST_CASE(initialisers_scale_with_the_extents) {
  graph g;
  const auto deviation = [&](auto init, const char* name) {
    const auto w = variable<double, dims<400, 100>>(g, name, init);
    session s{g, {.threads = 1}};
    const auto value = s.eval(w);
    double sum = 0, largest = 0;
    for (const double x : value) sum += x * x / 40000, largest = std::max(largest, std::abs(x));
    return std::pair(std::sqrt(sum), largest);
  };
  const double glorot = std::sqrt(2.0 / 500), he = std::sqrt(2.0 / 400);
  const auto [of_glorot, largest] = deviation(init::glorot_uniform{}, "a");
  BOOST_CHECK_CLOSE(of_glorot, glorot, 2);
  BOOST_CHECK_CLOSE(largest, std::sqrt(6.0 / 500), 1);
  BOOST_CHECK_CLOSE(deviation(init::glorot_normal{}, "b").first, glorot, 2);
  BOOST_CHECK_CLOSE(deviation(init::he_normal{}, "c").first, he, 2);
  BOOST_CHECK_CLOSE(deviation(init::he_uniform{}, "d").first, he, 2);
  BOOST_CHECK_CLOSE(deviation(init::uniform{-1, 1}, "e").first, std::sqrt(1.0 / 3), 2);
  BOOST_CHECK_EQUAL(deviation(init::constant{-2.5}, "f").second, 2.5);
  BOOST_CHECK_EQUAL(deviation(init::ones{}, "g").second, 1);
  BOOST_CHECK_EQUAL(deviation(init::zeros{}, "h").second, 0);
}

BOOST_AUTO_TEST_CASE(first_values_of_integers) {
  graph g;
  const auto w = variable<std::int32_t, dims<6000>>(g, "w", init::uniform{-3, 3});
  session s{g};
  int count[6]{};
  for (const std::int32_t x : s.eval(w)) {
    BOOST_REQUIRE(x >= -3 && x < 3);
    ++count[x + 3];
  }
  for (const int n : count) BOOST_CHECK_SMALL(n - 1000, 150);
  const auto refused = [&](auto init, auto element, const char* words) {
    BOOST_CHECK_EXCEPTION(static_cast<void>(variable<decltype(element)>(g, "n", init)), error,
                          says(error_code::invalid_argument, words));
  };
  refused(init::constant{300}, std::int8_t{}, "n: the initial value 300 cannot be represented as int8");
  refused(init::constant{-1}, std::uint32_t{}, "-1 cannot be represented as uint32");
  refused(init::constant{0.5}, std::int64_t{}, "0.5 cannot be represented as int64");
  refused(init::constant{2}, false, "2 cannot be represented as bool");
  refused(init::uniform{}, std::int32_t{}, "-0.05");
  refused(init::uniform{0, 257}, std::uint8_t{}, "257 cannot be represented as uint8");
  refused(init::normal{}, std::int32_t{}, "normal numbers cannot be int32");
  BOOST_CHECK_EQUAL(g.size(), 1u);
  const auto byte = variable<std::uint8_t, dims<100>>(g, "byte", init::uniform{250, 256});
  session other{g};
  for (const std::uint8_t x : other.eval(byte)) BOOST_CHECK_GE(x, 250);
}
