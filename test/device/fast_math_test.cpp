// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <weft/weft.hpp>

// Compiled with -ffast-math: whoever asks for it in a program of their own gets no other elementary functions from
// Weft. The expected values come from libm, in double, one element at a time.

using namespace weft;

namespace {

constexpr int count = 4001;
using vec = tensor<float, dims<count>>;

// This file's own comparisons take every number for finite.
bool is_nan(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7fffffffu) > 0x7f800000u; }

template <class R>
double worst(const vec& x, const vec& y, R exact) {
  double largest = 0;
  for (int i = 0; i < count; ++i) {
    const double expected = exact(double{x(i)});
    largest = std::fmax(largest, std::fabs((double{y(i)} - expected) / (expected == 0 ? 1 : expected)));
  }
  return largest;
}

}  // namespace

BOOST_AUTO_TEST_CASE(elementary_functions) {
  vec x;
  for (int i = 0; i < count; ++i) x.data()[i] = 0.0101f * static_cast<float>(i - count / 2);
  BOOST_CHECK_LT(worst(x, exp(x), [](double v) { return std::exp(v); }), 5e-7);
  BOOST_CHECK_LT(worst(x, tanh(x), [](double v) { return std::tanh(v); }), 5e-7);
  BOOST_CHECK_LT(worst(x, sigmoid(x), [](double v) { return 1 / (1 + std::exp(-v)); }), 5e-7);
  BOOST_CHECK_LT(worst(x, erf(x), [](double v) { return std::erf(v); }), 5e-7);
  BOOST_CHECK_LT(worst(x * 1e30f, sin(x * 1e30f), [](double v) { return std::sin(v); }), 5e-7);
  BOOST_CHECK_LT(worst(x, log(square(x) + 1.5f), [](double v) { return std::log(v * v + 1.5); }), 1e-6);
  const tensor<double, dims<3>> y = exp(tensor<double, dims<3>>{-18.3684, 0.3466, 20});
  for (const int i : {0, 1, 2}) BOOST_CHECK_CLOSE(y(i), std::exp(i == 0 ? -18.3684 : i == 1 ? 0.3466 : 20), 1e-12);
  const auto p = softmax(tensor<float, dims<3>>{0.5f, 1, 20});
  BOOST_CHECK_CLOSE(double{p(0)}, 3.3982670e-9, 1e-4);
}

BOOST_AUTO_TEST_CASE(not_a_number_stays_one) {
  tensor<float, dims<3>> x{1, std::bit_cast<float>(0x7fc00000u), 5};
  BOOST_CHECK(is_nan(max(x)) && is_nan(min(x)) && is_nan(sum(x)));
  const auto larger = eval(maximum(x, 2.0f));
  BOOST_CHECK(larger(0) == 2 && is_nan(larger(1)) && larger(2) == 5);
  tensor<float, dims<1, 4, 4, 1>> image;
  image.data()[0] = image.data()[11] = x(1);
  const auto halved = max_pool2d<2>(image);
  BOOST_CHECK(is_nan(halved.data()[0]) && !is_nan(halved.data()[1]) && is_nan(halved.data()[3]));
  const auto overlapping = max_pool2d<3, 1>(image);
  BOOST_CHECK(is_nan(overlapping.data()[0]) && is_nan(overlapping.data()[3]));
}

namespace {

// Long enough for vectors and for the elements that are left over.
template <class T>
void check_functions() {
  constexpr int some = 37;
  const auto may_be_nan = [](int i) { return i % 5 == 1; };
  tensor<T, dims<some>> x;
  for (int i = 0; i < some; ++i)
    x(i) = may_be_nan(i) ? static_cast<T>(std::bit_cast<float>(0x7fc00000u)) : T(0.25) * static_cast<T>(i + 1);
  const auto check = [&](const char* name, const tensor<T, dims<some>>& y) {
    BOOST_TEST_CONTEXT(name) {
      for (int i = 0; i < some; ++i) BOOST_TEST(is_nan(static_cast<float>(y(i))) == may_be_nan(i), "element " << i);
    }
  };
#define CHECK_FUNCTION(...) check(#__VA_ARGS__, __VA_ARGS__)
  CHECK_FUNCTION(abs(x));
  CHECK_FUNCTION(sign(x));
  CHECK_FUNCTION(floor(x));
  CHECK_FUNCTION(sqrt(x));
  CHECK_FUNCTION(rsqrt(x));
  CHECK_FUNCTION(exp(x));
  CHECK_FUNCTION(expm1(x));
  CHECK_FUNCTION(log(x));
  CHECK_FUNCTION(log1p(x));
  CHECK_FUNCTION(tanh(x));
  CHECK_FUNCTION(sigmoid(x));
  CHECK_FUNCTION(erf(x));
  CHECK_FUNCTION(sin(x));
  CHECK_FUNCTION(cos(x));
  CHECK_FUNCTION(pow(x, T(2)));
  CHECK_FUNCTION(pow(T(2), x));
  CHECK_FUNCTION(maximum(x, T(2)));
  CHECK_FUNCTION(maximum(T(2), x));
  CHECK_FUNCTION(minimum(x, T(2)));
  CHECK_FUNCTION(minimum(T(2), x));
  CHECK_FUNCTION(square(x));
  CHECK_FUNCTION(relu(x));
  CHECK_FUNCTION(relu6(x));
  CHECK_FUNCTION(softplus(x));
  CHECK_FUNCTION(elu(x));
  CHECK_FUNCTION(selu(x));
  CHECK_FUNCTION(gelu(x));
  CHECK_FUNCTION(silu(x));
  CHECK_FUNCTION(softsign(x));
  CHECK_FUNCTION(hard_sigmoid(x));
  CHECK_FUNCTION(hard_swish(x));
#undef CHECK_FUNCTION
  const tensor<int, dims<some>> whole = cast<int>(x);
  for (int i = 0; i < some; ++i) BOOST_CHECK_EQUAL(whole(i), may_be_nan(i) ? 0 : (i + 1) / 4);
}

}  // namespace

BOOST_AUTO_TEST_CASE(not_a_number_stays_one_in_every_function) {
  check_functions<float>();
  check_functions<double>();
}

// The exponentials near the largest float: from libm, in double.
BOOST_AUTO_TEST_CASE(large_exponentials_are_finite) {
  vec x;
  x.fill(88.70541f);
  BOOST_CHECK_LT(worst(x, exp(x), [](double v) { return std::exp(v); }), 5e-7);
  BOOST_CHECK_LT(worst(x, expm1(x), [](double v) { return std::expm1(v); }), 5e-7);
  tensor<double, dims<9>> wide;
  wide.fill(709.77);
  BOOST_CHECK_CLOSE(eval(exp(wide))(0), std::exp(709.77), 1e-11);
}
