// SPDX-License-Identifier: BSL-1.0
#include <limits>
#include <weft/graph/linspace.hpp>
#include <weft/ops/arrays/diagonal.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/ops/reduce/reductions.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"

using namespace weft;

// The reductions of ops/reduce/reductions.hpp and the functions of ops/arrays, against PyTorch
// (make_reductions_values.py).

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/reductions_values.txt");
  return all;
}

/// Over tensors at once, in a graph where the first extent has a name, and its gradient.
template <class Known, class Named, class F>
void check(const std::string& name, const char* operand, F f) {
  const auto x = right().tensor<double, Known>(operand);
  right().check(name, f(x));
  right().check(name, f(x + 0.0));
  right().check(name, f(cast<float>(x)), 1e-5);
  graph g;
  const auto p = placeholder<double, Named>(g, "p");
  const auto y = let(f(p));
  const auto [d] = gradients(sum(square(y + 1)), p);
  session s{g, {.threads = 1}};
  right().check(name, s.eval(y, with(p, x)));
  right().check(name + ".gradient", s.eval(d, with(p, x)));
}
template <class F>
void of_cube(const std::string& name, F f) {
  check<dims<2, 3, 4>, dims<dyn<"n">, 3, 4>>(name, "x", f);
}
template <class F>
void of_squares(const std::string& name, F f) {
  check<dims<2, 3, 3>, dims<dyn<"n">, 3, 3>>(name, "squares", f);
}
/// Two rows, one of them zeros.
template <class F>
void of_zeros(const std::string& name, F f) {
  const auto x = right().tensor<double, dims<4, 4>>("rows");
  graph g;
  const auto p = placeholder<double, dims<4, 4>>(g, "p");
  const auto y = let(f(slice<0, 0, 2>(p)));
  const auto [d] = gradients(sum(square(y + 1)), p);
  const auto [second] = gradients(sum(square(d)), p);
  session s{g, {.threads = 1}};
  right().check(name, s.eval(y, with(p, x)));
  right().check(name + ".gradient", eval(slice<0, 0, 2>(s.eval(d, with(p, x)))));
  const auto found = s.eval(second, with(p, x));
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(found.data()[i], 0);
}

template <class T, class D, class... More>
void same(const tensor<T, D>& found, More... expected) {
  const std::vector<T> values{static_cast<T>(expected)...};
  BOOST_REQUIRE_EQUAL(found.elements(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) BOOST_CHECK(found.data()[i] == values[i]);
}

}  // namespace

BOOST_AUTO_TEST_CASE(log_of_the_sum_of_exponentials) {
  of_cube("logsumexp", [](const auto& x) { return logsumexp(x); });
  of_cube("logsumexp_1", [](const auto& x) { return logsumexp<1>(x); });
  of_cube("logsumexp_02", [](const auto& x) { return logsumexp<0, -1>(x); });
  check<dims<4, 4>, dims<dyn<"n">, 4>>("logsumexp_rows", "rows", [](const auto& x) {
    // -1e300 is no float.
    return logsumexp<1>(maximum(x, -3e38));
  });
  same(eval(logsumexp<1>(tensor<float, dims<5, 2>>{-infinity, -infinity, infinity, 1, infinity, -infinity, 88,
                                                   -infinity, 3e38f, 3e38f})),
       -infinity, infinity, infinity, 88, 3e38f);
  const auto of_nan = eval(logsumexp<0>(tensor<float, dims<2>>{not_a_number, infinity}));
  BOOST_CHECK(std::isnan(of_nan()));
  const auto kept = logsumexp<1, keep_dims>(tensor<float, dims<2, 3>>());
  static_assert(std::is_same_v<dims_t<decltype(kept)>, dims<2, 1>>);
  same(eval(logsumexp<1>(tensor<double, dims<2, 0>>())), -double(infinity), -double(infinity));
}

BOOST_AUTO_TEST_CASE(norms_of_three_orders) {
  of_cube("norm", [](const auto& x) { return norm(x); });
  of_cube("norm_one_2", [](const auto& x) { return norm<2, norm_order::one>(x); });
  of_cube("norm_two_01", [](const auto& x) { return norm<norm_order::two, 0, 1>(x); });
  of_cube("norm_infinity_1", [](const auto& x) { return norm<norm_order::infinity, 1>(x); });
  of_cube("norm_infinity_1", [](const auto& x) { return squeeze<1>(norm<norm_order::infinity, keep_dims, 1>(x)); });
  of_zeros("norm_one_small", [](const auto& x) { return norm<1, norm_order::one>(x); });
  of_zeros("norm_two_small", [](const auto& x) { return norm<1>(x); });
  of_zeros("norm_infinity_small", [](const auto& x) { return norm<1, norm_order::infinity>(x); });
  BOOST_CHECK(std::isnan(norm(tensor<float, dims<2>>{not_a_number, 1})()));
  BOOST_CHECK_EQUAL(norm(tensor<float, dims<2>>{-infinity, 1})(), infinity);
}

BOOST_AUTO_TEST_CASE(variances_biased_and_unbiased) {
  of_cube("variance", [](const auto& x) { return variance(x); });
  of_cube("variance_0", [](const auto& x) { return variance<0>(x); });
  of_cube("variance_12", [](const auto& x) { return squeeze<1, 2>(variance<1, keep_dims, 2>(x)); });
  of_cube("variance_unbiased", [](const auto& x) { return variance<unbiased>(x); });
  of_cube("variance_0_unbiased", [](const auto& x) { return variance<unbiased, 0>(x); });
  of_cube("variance_12_unbiased", [](const auto& x) { return squeeze<1, 2>(variance<1, 2, unbiased, keep_dims>(x)); });
  of_cube("stddev_12", [](const auto& x) { return stddev<1, 2>(x); });
  of_cube("stddev_12_unbiased", [](const auto& x) { return stddev<1, 2, unbiased>(x); });
  of_zeros("stddev_small", [](const auto& x) { return stddev<1>(x); });
  of_zeros("stddev_small_unbiased", [](const auto& x) { return stddev<1, unbiased>(x); });
  BOOST_CHECK(std::isnan(eval(variance<unbiased>(tensor<float, dims<1>>{3}))()));
  // As the square of the mean is not subtracted from the mean of squares, little is lost far from 0.
  BOOST_CHECK_SMALL(eval(variance(tensor<float, dims<4>>{10000, 10001, 10002, 10003}))() - 1.25f, 1e-5f);
}

BOOST_AUTO_TEST_CASE(any_and_all) {
  const tensor<bool, dims<2, 3>> x{false, true, false, false, false, false};
  same(eval(any<1>(x)), true, false);
  same(eval(any<0, keep_dims>(x)), false, true, false);
  same(eval(all<1>(!x)), false, true);
  BOOST_CHECK(any(x)());
  BOOST_CHECK(!all(x)());
  same(eval(any<1>(tensor<bool, dims<2, 0>>())), false, false);
  same(eval(all<1>(tensor<bool, dims<2, 0>>())), true, true);
  graph g;
  const auto p = placeholder<float, dims<dyn<"n">, 3>>(g, "p");
  session s{g, {.threads = 1}};
  const tensor<float, dims<2, 3>> numbers{1, 2, 3, 4, -5, 6};
  same(s.eval(any<1>(p < 0), with(p, numbers)), false, true);
  same(s.eval(all<1>(p > 0), with(p, numbers)), true, false);
}

BOOST_AUTO_TEST_CASE(argmin_of_every_type) {
  same(argmin<1>(tensor<float, dims<4, 3>>{3, 1, 1, not_a_number, 5, 4, infinity, not_a_number, infinity, 0, -0.0f,
                                           -infinity}),
       1, 2, 0, 2);
  same(argmin<0>(tensor<std::int32_t, dims<3>>{1, std::numeric_limits<std::int32_t>::min(),
                                               std::numeric_limits<std::int32_t>::max()}),
       1);
  same(argmin<0>(tensor<std::uint8_t, dims<3>>{255, 7, 200}), 1);
  same(argmin<0>(tensor<bool, dims<3>>{true, false, false}), 1);
  same(argmin<-1>(tensor<weft::half, dims<3>>{weft::half(2), weft::half(-2), weft::half(0)}), 1);
  graph g;
  const auto p = placeholder<double, dims<2, dyn<"n">>>(g, "p");
  session s{g, {.threads = 1}};
  same(s.eval(argmin<1>(p), with(p, tensor<double, dims<2, 2>>{1, 2, 2, 1})), 0, 1);
  BOOST_CHECK_THROW(s.eval(argmin<1>(p), with(p, tensor<double, dims<2, 0>>())), error);
}

BOOST_AUTO_TEST_CASE(stacks_tiles_and_their_parts) {
  of_cube("stack_0", [](const auto& x) { return stack<0>(x, 2 * x); });
  of_cube("stack_2", [](const auto& x) { return stack<2>(x, 2 * x, x * x); });
  of_cube("stack_last", [](const auto& x) { return stack<-1>(x, 2 * x); });
  of_cube("unstack_1", [](const auto& x) {
    const auto [a, b, c] = unstack<1>(x);
    static_assert(dims_t<decltype(b)>::rank == 2);
    return a * 2 - c;
  });
  of_cube("tile_213", [](const auto& x) { return tile<2, 1, 3>(x); });
  of_cube("tile_122", [](const auto& x) { return tile<1, 2, 2>(x); });
  same(tile<2>(tensor<bool, dims<2>>{true, false}), true, false, true, false);
  same(stack<0>(tensor<float>(1), tensor<float>(2)), 1, 2);
  const auto [a, b] = unstack<-1>(tensor<std::int32_t, dims<2>>{3, 4});
  static_assert(dims_t<decltype(a)>::rank == 0);
  BOOST_CHECK_EQUAL(a() * 10 + b(), 34);
}

BOOST_AUTO_TEST_CASE(diagonals_and_bands) {
  of_cube("diag", [](const auto& x) { return diag(x); });
  of_squares("diag_part", [](const auto& x) { return diag_part(x); });
  of_squares("trace", [](const auto& x) { return matrix_trace(x); });
  of_cube("band_lower", [](const auto& x) { return band_part(x, -1, 0); });
  of_cube("band_upper", [](const auto& x) { return band_part(x, 0, -1); });
  of_cube("band_01", [](const auto& x) { return band_part(x, 0, 1); });
  of_cube("band_10", [](const auto& x) { return band_part(x, 1, 0); });
  same(diag(tensor<bool, dims<2>>{true, true}), true, false, false, true);
  same(diag_part(tensor<std::int8_t, dims<1, 1>>{-7}), -7);
  same(diag_part(tensor<weft::half, dims<2, 2>>{weft::half(1), weft::half(2), weft::half(3), weft::half(4)}),
       weft::half(1), weft::half(4));
  same(eval(band_part(tensor<float, dims<2, 2>>{1, not_a_number, 3, 4}, 9, 0)), 1, 0, 3, 4);
  graph g;
  const auto p = placeholder<float, dims<dyn<"n">, dyn<"n">>>(g, "p");
  session s{g, {.threads = 1}};
  BOOST_CHECK_EQUAL(s.eval(matrix_trace(p), with(p, tensor<float, dims<2, 2>>{1, 2, 3, 4})), 5);
}

BOOST_AUTO_TEST_CASE(numbers_at_equal_distances) {
  same(linspace<float, 5>(0, 1), 0, 0.25, 0.5, 0.75, 1);
  same(linspace<double, 4>(1, -2), 1, 0, -1, -2);
  same(linspace<double, 1>(3, 9), 3);
  BOOST_CHECK_EQUAL((linspace<float, 50>(0, 0.1f).data()[49]), 0.1f);
  graph g;
  session s{g, {.threads = 1}};
  const auto x = linspace<float, 3>(g, -1, 1);
  same(s.eval(x), -1, 0, 1);
}

BOOST_AUTO_TEST_CASE(gradients_of_higher_order) {
  gradient_check check;
  const auto x = check.input<dims<3, 3>>();
  check("logsumexp", logsumexp<1>(x), 3);
  check("norm", norm<0>(x), 3);
  check("variance", variance<0, unbiased>(x) * variance<1>(x));
  check("stddev", stddev<0>(x), 3);
  check("arrays", square(diag(diag_part(x) * matrix_trace(x)) + band_part(x, 1, 0)));
  check("tile", square(tile<2, 3, 1>(stack<1>(x, x * x))));
}
