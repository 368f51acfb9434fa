// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>

#include "functions.hpp"

namespace math = weft::math;
using weft::isa;

namespace {

std::vector<isa> instruction_sets() {
  std::vector<isa> sets{isa::baseline};
  if (weft::detected_isa() >= isa::avx2) sets.push_back(isa::avx2);
  if (weft::detected_isa() >= isa::avx512) sets.push_back(isa::avx512);
  return sets;
}

// New in every run; WEFT_RANDOM_FROM says which instead.
std::uint64_t seed() {
  static const std::uint64_t s = [] {
    const char* const given = std::getenv("WEFT_RANDOM_FROM");
    const std::uint64_t from = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
    std::printf("numbers at random from WEFT_RANDOM_FROM=%llu\n", static_cast<unsigned long long>(from));
    return from;
  }();
  return s;
}

// Numbers at random, bit patterns from end to end, the range where the functions live, and the special values.
template <class T>
std::vector<T> arguments() {
  using bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::vector<T> x;
  const bits step = static_cast<bits>(~bits{0} / 500'000) | 1;
  for (bits b = 0; b < static_cast<bits>(~bits{0} - step); b += step) {
    T value;
    std::memcpy(&value, &b, sizeof value);
    x.push_back(value);
  }
  for (int i = -200'000; i <= 200'000; ++i) {
    x.push_back(T(i) * T(0.0005013));
    x.push_back(T(i) * T(0.0000117));
    x.push_back(T(i) * T(0.0037519));
  }
  using limits = std::numeric_limits<T>;
  for (T value : {T(0),
                  T(1),
                  T(2),
                  T(0.5),
                  limits::infinity(),
                  limits::max(),
                  limits::min(),
                  limits::denorm_min(),
                  limits::epsilon(),
                  T(88.72283),
                  T(88.72284),
                  T(103.97),
                  T(103.98),
                  T(104.5),
                  T(709.78),
                  T(709.79),
                  T(745.1),
                  T(745.2),
                  T(8388607.5),
                  T(8388609)}) {
    x.push_back(value);
    x.push_back(-value);
  }
  x.push_back(limits::quiet_NaN());
  std::mt19937_64 random(seed());
  for (int i = 0; i < 100'000; ++i) {
    const bits b = static_cast<bits>(random());
    T value;
    std::memcpy(&value, &b, sizeof value);
    x.push_back(value);
    x.push_back(std::ldexp(static_cast<T>(static_cast<std::int32_t>(random())), static_cast<int>(random() % 16) - 36));
  }
  return x;
}

template <class T, class F>
std::vector<T> evaluate(isa set, const std::vector<T>& x, F f) {
  std::vector<T> y(x.size());
  const T* in = x.data();
  T* out = y.data();
  const std::size_t n = x.size();
  weft::multiversioned(set, [=] {
    WEFT_VECTORIZE
    for (std::size_t i = 0; i < n; ++i) out[i] = f(in[i]);
  });
  return y;
}

// The largest distance in units in the last place; where either side is NaN or infinite, or zero is right, the two must
// be the same.
template <class T, class F, class R>
void expect(const char* name, double ulp, F f, R exact) {
  using wide = std::conditional_t<sizeof(T) == 4, double, long double>;
  const auto x = arguments<T>();
  std::vector<wide> right(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) right[i] = static_cast<wide>(exact(static_cast<wide>(x[i])));
  for (isa set : instruction_sets()) {
    const auto y = evaluate(set, x, f);
    double worst = 0;
    T worst_at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const wide expected = right[i];
      const T rounded = static_cast<T>(expected);
      double distance = 0;
      if (std::isnan(rounded) || std::isnan(y[i])) {
        distance = std::isnan(rounded) && std::isnan(y[i]) ? 0 : 1e9;
      } else if (std::isinf(rounded) || std::isinf(y[i]) || expected == 0 || (rounded == 0 && y[i] == 0)) {
        distance = rounded == y[i] && std::signbit(rounded) == std::signbit(y[i]) ? 0 : 1e9;
      } else {
        const wide unit = std::nextafter(std::fabs(rounded), std::numeric_limits<T>::infinity()) - std::fabs(rounded);
        distance = static_cast<double>(std::fabs(static_cast<wide>(y[i]) - expected) / unit);
      }
      if (distance > worst) worst = distance, worst_at = x[i];
    }
    BOOST_TEST(worst <= ulp, name << "<" << (sizeof(T) == 4 ? "float" : "double") << "> for " << weft::name(set) << ": "
                                  << worst << " ulp at " << worst_at);
  }
}

#define EXPECT(function, ulp, exact)                                                                      \
  expect<float>(#function, ulp, [](float x) { return math::function(x); }, [](auto x) { return exact; }); \
  expect<double>(#function, ulp, [](double x) { return math::function(x); }, [](auto x) { return exact; })

}  // namespace

BOOST_AUTO_TEST_CASE(exponentials) {
  EXPECT(exp, 1.0, std::exp(x));
  EXPECT(expm1, 2.0, std::expm1(x));
  EXPECT(sigmoid, 2.5, 1 / (1 + std::exp(-x)));
  EXPECT(tanh, 2.75, std::tanh(x));
}

BOOST_AUTO_TEST_CASE(logarithms) {
  EXPECT(log, 1.0, std::log(x));
  EXPECT(log1p, 1.5, std::log1p(x));
}

BOOST_AUTO_TEST_CASE(exact_functions) {
  EXPECT(sqrt, 0.5, std::sqrt(x));
  EXPECT(floor, 0, std::floor(x));
  EXPECT(abs, 0, std::fabs(x));
}

BOOST_AUTO_TEST_CASE(functions_of_the_list) {
  functions::each([]<class F>(F, const functions::row& right) {
    if constexpr (functions::expected<F>.ulp_in_double != functions::none) {
      expect<float>(F::name, right.ulp, [](float x) { return F::apply(x); }, right.value);
      expect<double>(F::name, right.ulp_in_double, [](double x) { return F::apply(x); }, right.value);
    }
  });
}

BOOST_AUTO_TEST_CASE(powers) {
  for (float y : {0.0f, -0.0f, 1.0f, -1.0f, 2.0f, 3.0f, -3.0f, 0.5f, -0.5f, 2.5f, 0.01f, 7.0f, 100.0f, 16777217.0f,
                  1e30f, INFINITY, -INFINITY, NAN})
    expect<float>(
        "pow", 0.51, [y](float x) { return math::pow(x, y); },
        [y](double x) { return std::pow(x, static_cast<double>(y)); });
  BOOST_TEST(math::pow(-2.0, 3.0) == -8.0);
}

BOOST_AUTO_TEST_CASE(maximum_and_minimum_pass_nan_on) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  BOOST_TEST(math::maximum(1.0f, 2.0f) == 2.0f);
  BOOST_TEST(math::minimum(1.0f, 2.0f) == 1.0f);
  for (float other : {1.0f, -INFINITY, INFINITY}) {
    BOOST_TEST(std::isnan(math::maximum(nan, other)));
    BOOST_TEST(std::isnan(math::maximum(other, nan)));
    BOOST_TEST(std::isnan(math::minimum(nan, other)));
    BOOST_TEST(std::isnan(math::minimum(other, nan)));
  }
}

BOOST_AUTO_TEST_CASE(odd_functions_are_odd_to_the_last_bit) {
  for (float x = 0.001f; x < 20; x *= 1.01f) BOOST_REQUIRE(math::tanh(-x) == -math::tanh(x));
}
