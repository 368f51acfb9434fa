// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <complex>
#include <string>
#include <vector>
#include <weft/ops/signals/fft.hpp>
#include <weft/ops/signals/stft.hpp>
#include <weft/weft.hpp>

#include "ops/gradient_check.hpp"
#include "ops/values_of.hpp"

// Fourier transforms against NumPy's, for lengths of all radices and for one with a large prime factor.

using namespace weft;

namespace {

const values_of& expected() {
  static const values_of all(TEST_DATA "/ops/signals_values.txt");
  return all;
}

template <class T, class D>
tensor<T, D> rows(bool second = false) {
  tensor<T, D> x;
  for (std::size_t i = 0; i < x.elements(); ++i) {
    const auto at = static_cast<double>(i);
    x.data()[i] = static_cast<T>(second ? std::cos(0.3 * at * at) : std::sin(1.7 * at + 1));
  }
  return x;
}

template <class... X>
void check(const std::string& name, const X&... parts) {
  const std::vector<double>& right = expected()[name];
  std::size_t at = 0;
  const auto compare = [&](const auto& x) {
    const double tolerance = sizeof(*x.data()) == 4 ? 1e-5 : 1e-13;
    for (std::size_t i = 0; i < x.elements(); ++i, ++at)
      BOOST_CHECK_MESSAGE(at < right.size() && std::abs(static_cast<double>(x.data()[i]) - right[at]) <
                                                   tolerance * (1 + std::abs(right[at])) * 8,
                          name << " " << at << ": " << x.data()[i]);
  };
  (compare(parts), ...);
  BOOST_CHECK_EQUAL(at, right.size());
}

template <int N>
void check_length() {
  const auto test = [&]<class T>(T) {
    const auto a = rows<T, dims<2, N>>(), b = rows<T, dims<2, N>>(true);
    const std::string n = "_" + std::to_string(N);
    const auto y = fft(a, b);
    check("fft" + n, y.real, y.imag);
    const auto z = ifft(a, b);
    check("ifft" + n, z.real, z.imag);
    const auto h = rfft(a);
    check("rfft" + n, h.real, h.imag);
    check("irfft" + n, irfft<N>(rows<T, dims<2, N / 2 + 1>>(), rows<T, dims<2, N / 2 + 1>>(true)));
  };
  test(0.0);
  test(0.0f);
}

/// Compares the transform of one row with the definition, at a few places.
template <class T>
void check_long(std::size_t n) {
  const device::fft_plan<T> plan(n);
  std::vector<T> x(2 * n), y(2 * n), scratch(plan.scratch());
  for (std::size_t i = 0; i < 2 * n; ++i) x[i] = static_cast<T>(std::sin(static_cast<double>(i * i % 1000)));
  plan.run(x.data(), x.data() + n, y.data(), y.data() + n, scratch.data());
  double power = 0;
  for (const T e : x) power += static_cast<double>(e) * static_cast<double>(e);
  for (std::size_t k = 0; k < n; k += n / 7 + 1) {
    using exact = std::complex<long double>;
    exact sum = 0;
    for (std::size_t j = 0; j < n; ++j)
      sum += std::polar(1.0L, -6.283185307179586476925287L * static_cast<long double>(j * k % n) /
                                  static_cast<long double>(n)) *
             exact(static_cast<long double>(x[j]), static_cast<long double>(x[n + j]));
    const auto error =
        static_cast<double>(std::abs(sum - exact(static_cast<long double>(y[k]), static_cast<long double>(y[n + k]))));
    BOOST_CHECK_LE(error, (sizeof(T) == 4 ? 2e-6 : 4e-15) * std::sqrt(power));
  }
}

constexpr stft_options frames{.length = 8, .step = 4};

}  // namespace

BOOST_AUTO_TEST_CASE(transforms_have_numpys_values) {
  check_length<1>();
  check_length<2>();
  check_length<3>();
  check_length<8>();
  check_length<12>();
  check_length<15>();
  check_length<17>();
  check_length<26>();
  check_length<35>();
  check_length<44>();
}

BOOST_AUTO_TEST_CASE(long_rows_are_accurate) {
  for (const std::size_t n : {1024u, 1009u, 5000u, 2187u, 16384u, 30030u}) {
    check_long<double>(n);
    check_long<float>(n);
  }
}

BOOST_AUTO_TEST_CASE(images_are_transformed_along_both_axes) {
  const auto y = rfft2(rows<double, dims<2, 3, 4>>());
  check("rfft2", y.real, y.imag);
  check("irfft2", irfft2<4>(rows<double, dims<2, 3, 3>>(), rows<double, dims<2, 3, 3>>(true)));
  const auto z = fft2(rows<double, dims<2, 3, 4>>(), rows<double, dims<2, 3, 4>>(true));
  check("fft2", z.real, z.imag);
  const auto back = ifft2(z);
  const auto x = rows<double, dims<2, 3, 4>>();
  for (std::size_t i = 0; i < x.elements(); ++i) BOOST_CHECK_SMALL(back.real.data()[i] - x.data()[i], 1e-14);
}

BOOST_AUTO_TEST_CASE(rows_of_named_length_and_none) {
  graph g;
  using D = dims<dyn<"batch">, dyn<"n">>;
  const auto a = placeholder<double, D>(g, "a");
  const auto b = placeholder<double, D>(g, "b");
  const auto y = fft(a, b);
  const auto back = ifft(y);
  session s{g, {.threads = 2}};
  const tensor<double, D> in(shape(2, 12), rows<double, dims<24>>()), also(shape(2, 12), rows<double, dims<24>>(true));
  const auto [real, imag, again] = s.run(fetch(y.real, y.imag, back.real), with(a, in), with(b, also));
  check("fft_12", real, imag);
  for (std::size_t i = 0; i < 24; ++i) BOOST_CHECK_SMALL(again.data()[i] - in.data()[i], 1e-14);
  BOOST_CHECK_EQUAL(
      s.eval(back.imag, with(a, tensor<double, D>(shape(0, 5))), with(b, tensor<double, D>(shape(0, 5)))).elements(),
      0u);
  const auto none = rfft(tensor<float, dims<0, 6>>());
  BOOST_CHECK_EQUAL(none.real.elements(), 0u);
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_linear_functions) {
  gradient_check c;
  using D = dims<dyn<"n">, 6>;
  const auto a = c.input<D>(-1, 1, shape(2, 6));
  const auto b = c.input<D>(-1, 1, shape(2, 6));
  const auto y = fft(a * a, b);
  c("fft", y.real * y.imag);
  c("fft, one part", square(fft(a, b).imag));
  const auto z = ifft(a, b);
  c("ifft", z.real * z.real * z.imag);
  gradient_check odd;
  const auto e = odd.input<dims<2, 7>>();
  const auto f = odd.input<dims<2, 4>>();
  const auto g = odd.input<dims<2, 4>>();
  const auto even = odd.input<dims<2, 6>>();
  const auto h = rfft(e);
  odd("rfft, odd", h.real * h.imag);
  const auto i = rfft(even);
  odd("rfft, even", i.real * sin(i.imag));
  odd("irfft, odd", square(irfft<7>(f, g)));
  odd("irfft, even", square(irfft(f, g)));
}

BOOST_AUTO_TEST_CASE(short_transforms_and_their_inverse) {
  const auto x = rows<double, dims<2, 22>>();
  const auto y = stft<frames>(x);
  static_assert(std::is_same_v<decltype(y.real), tensor<double, dims<2, 4, 5>>>);
  check("stft", y.real, y.imag);
  const auto back = istft<20, frames>(y);
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t i = 1; i < 20; ++i) BOOST_CHECK_SMALL(back(r, i) - x(r, i), 1e-13);  // Hann's window begins with 0
  gradient_check c;
  const auto p = c.input<dims<dyn<"n">, 22>>(-1, 1, shape(1, 22));
  const auto q = stft<frames>(p);
  c("power", square(q.real) + square(q.imag), 1);
  c("round trip", square(istft<20, frames>(q)), 1);
}
