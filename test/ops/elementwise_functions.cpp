// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/elementwise/activations.hpp>
#include <weft/ops/elementwise/bits.hpp>
#include <weft/ops/elementwise/clamp.hpp>
#include <weft/ops/elementwise/predicates.hpp>
#include <weft/ops/elementwise/rounding.hpp>
#include <weft/ops/elementwise/special.hpp>
#include <weft/ops/elementwise/trigonometry.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"

using namespace weft;

// The functions of ops/elementwise/ outside of the list, against PyTorch (make_elementwise_functions_values.py).
// Functions of one operand are also in functions.hpp.

namespace {

using column = dims<dyn<"n">>;

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/elementwise_functions_values.txt");
  return all;
}
template <class T>
tensor<T, column> operand(const std::string& name) {
  return right().tensor<T, column>(name, shape(right()[name].size()));
}

/// The values of all pairs of edges.
template <class F>
void edges(const std::string& name, F f) {
  right().check(name, f(operand<double>("a"), operand<double>("b")));
  right().check(name, f(operand<float>("a"), operand<float>("b")), 1e-6);
}

/// In a graph, with gradients, and at once.
template <class F>
void one(const std::string& name, F f, const char* x = "x", double tolerance = 1e-12) {
  right().check(name, f(operand<float>(x)), 1e-6);
  graph g;
  const auto p = placeholder<double, column>(g, "p");
  const auto y = let(f(p));
  const auto [d] = gradients(sum(square(y + 1)), p);
  session s{g, {.threads = 1}};
  const auto [value, gradient] = s.run(fetch(y, d), with(p, operand<double>(x)));
  right().check(name, value);
  right().check(name + ".gradient", gradient, tolerance);
}
template <class F>
void two(const std::string& name, F f) {
  graph g;
  const auto a = placeholder<double, column>(g, "a"), b = placeholder<double, column>(g, "b");
  const auto y = let(f(a, b));
  const auto [da, db] = gradients(sum(square(y + 1)), a, b);
  session s{g, {.threads = 1}};
  const auto [value, of_a, of_b] =
      s.run(fetch(y, da, db), with(a, operand<double>("u")), with(b, operand<double>("v")));
  right().check("of." + name, value);
  right().check("of." + name + ".gradient", of_a);
  right().check("of." + name + ".gradient_b", of_b);
}

#define OF(function) [](const auto&... x) { return function(x...); }

}  // namespace

BOOST_AUTO_TEST_CASE(values_of_two_operands) {
  edges("atan2", OF(atan2));
  edges("hypot", OF(hypot));
  edges("logaddexp", OF(logaddexp));
  edges("xlogy", OF(xlogy));
  edges("floor_div", OF(floor_div));
  edges("floor_mod", OF(floor_mod));
  edges("fmod", OF(fmod));
  edges("heaviside", OF(heaviside));
  edges("clamp", [](const auto& x, const auto& low) { return clamp(x, low, 1); });
  edges("lerp", [](const auto& x, const auto& y) { return lerp(x, y, 0.75f); });
}

BOOST_AUTO_TEST_CASE(gradients_of_two_operands) {
  two("atan2", OF(atan2));
  two("hypot", OF(hypot));
  two("logaddexp", OF(logaddexp));
  two("floor_mod", OF(floor_mod));
  two("fmod", OF(fmod));
  two("lerp", [](const auto& a, const auto& b) { return lerp(a, b, 0.25); });
  two("clamp2", [](const auto& a, const auto& b) { return clamp(a, b, b + 1); });
  gradient_check check;
  const auto a = check.input<dims<2, 3>>(0.5, 2);
  const auto b = check.input<dims<3>>(0.5, 2);
  check("atan2", atan2(a, b), 3);
  check("hypot", hypot(a, b), 3);
  check("logaddexp", logaddexp(a, b), 3);
  check("xlogy", xlogy(a, b), 3);
  check("xlogy of a number", xlogy(2, b));
  check("atan2 of a number", atan2(a, 2));
  check("lerp", lerp(a, b, a * b));
  check("celu", celu(a - b, b));
  check("inside of others", atan(asin(a / 3) + sinc(b)) * lgamma(a * b), 2);
}

BOOST_AUTO_TEST_CASE(gradients_at_edges) {
  graph g;
  const auto a = placeholder<double, dims<3>>(g), b = placeholder<double, dims<3>>(g);
  const auto [h_a, h_b] = gradients(hypot(a, b), a, b);
  const auto [t_a, t_b] = gradients(atan2(a, b), a, b);
  const auto [x_a, x_b] = gradients(xlogy(a, b), a, b);
  const auto [s_a, s_b] = gradients(heaviside(a, b), a, b);
  const auto [f_a, f_b] = gradients(floor_div(a, b), a, b);
  const auto [root] = gradients(sum(asin(a) * b), a);
  session s{g, {.threads = 1}};
  const auto [ha, hb, ta, tb, xa, xb, sa, sb, fa, fb, da] =
      s.run(fetch(h_a, h_b, t_a, t_b, x_a, x_b, s_a, s_b, f_a, f_b, root), with(a, tensor<double, dims<3>>{0, 0, 1}),
            with(b, tensor<double, dims<3>>{0, 2, 0}));
  const auto are = [](const auto& found, double x, double y, double z) {
    BOOST_TEST(found(0) == x);
    BOOST_TEST(found(1) == y);
    BOOST_TEST(found(2) == z);
  };
  are(ha, 0, 0, 1), are(hb, 0, 1, 0);
  are(ta, 0, 0.5, 0), are(tb, 0, 0, -1);
  are(xa, 0, std::log(2.0), -INFINITY), are(xb, 0, 0, INFINITY);
  are(sa, 0, 0, 0), are(sb, 1, 1, 0);
  are(fa, 0, 0, 0), are(fb, 0, 0, 0);
  are(da, 0, 2, 0);  // the infinite derivative at 1 does not meet an upstream gradient of 0
}

BOOST_AUTO_TEST_CASE(activations_and_bounds) {
  one("celu", [](const auto& x) { return celu(x, 0.5); });
  one("hard_tanh", OF(hard_tanh));
  one("threshold", [](const auto& x) { return threshold(x, 0.5, -3); });
  one("hard_shrink", OF(hard_shrink));
  one("soft_shrink", OF(soft_shrink));
  one("clamp1", [](const auto& x) { return clamp(x, -0.4, 1.75); });
  one("tanh_shrink", OF(tanh_shrink), "x_finite");
  one("mish", OF(mish), "x_finite");
  one("log_sigmoid", OF(log_sigmoid), "x_finite");
  one("glu", OF(glu), "x_finite");
}

BOOST_AUTO_TEST_CASE(special_functions) {
  one("sinc", OF(sinc), "x_finite");
  one("ndtr", OF(ndtr), "x_finite");
  one("lgamma", OF(lgamma), "positive");
  one("digamma", OF(digamma), "positive", 1e-8);  // PyTorch's trigamma has nine digits
  const double inf = INFINITY;
  right().check("digamma_edges", digamma(tensor<double, dims<7>>{0, -0.0, -1, -1.5, -0.1, inf, -inf}));
  const tensor<double, dims<4>> x{0.5, 1, -0.5, 20};
  const double of_half = 4.934802200544679, of_one = 1.6449340668482264;  // pi^2 / 2 and pi^2 / 6
  const tensor<double, dims<4>> y = trigamma(x);
  BOOST_CHECK_CLOSE(y(0), of_half, 1e-12);
  BOOST_CHECK_CLOSE(y(1), of_one, 1e-12);
  BOOST_CHECK_CLOSE(y(2), of_half + 4, 1e-12);
  BOOST_CHECK_CLOSE(y(3), 0.051270822935203, 1e-10);
  BOOST_TEST(bool(exp2(tensor<double, dims<3>>{3, -1074, 1024}) == tensor<double, dims<3>>{8, 0x1p-1074, inf}));
  BOOST_TEST(bool(log2(tensor<float, dims<3>>{8, 0x1p-149f, 0}) == tensor<float, dims<3>>{3, -149, -INFINITY}));
  BOOST_TEST(bool(log10(tensor<float, dims<2>>{1000, 1e-5f}) == tensor<float, dims<2>>{3, -5}));
}

BOOST_AUTO_TEST_CASE(the_third_gradient_of_lgamma_is_an_error) {
  graph g;
  const auto x = placeholder<double, dims<2>>(g);
  const auto [first] = gradients(lgamma(x), x);
  const auto [second] = gradients(first, x);
  CHECK_SAYS(test::failure(error_code::unimplemented, [&, y = second] { static_cast<void>(gradients(y, x)); }),
             "trigamma");
}

BOOST_AUTO_TEST_CASE(integers) {
  const auto i = operand<std::int32_t>("i"), j = operand<std::int32_t>("j");
  right().check("int.floor_div", cast<double>(floor_div(i, j)));
  right().check("int.floor_mod", cast<double>(floor_mod(i, j)));
  right().check("int.fmod", cast<double>(fmod(i, j)));
  right().check("int.and", cast<double>(i & j));
  right().check("int.or", cast<double>(i | j));
  right().check("int.xor", cast<double>(i ^ j));
  right().check("int.left", cast<double>(i << abs(j)));
  right().check("int.right", cast<double>(i >> abs(j)));
  right().check("int.not", cast<double>(~i));
  right().check("int.popcount", cast<double>(popcount(i)));
  using bytes = tensor<std::int8_t, dims<5>>;
  const bytes x{-128, -1, 5, 127, 1};
  BOOST_TEST(bool(floor_div(x, bytes{-1, 2, -2, 127, 100}) == bytes{-128, -1, -3, 1, 0}));
  BOOST_TEST(bool((x << bytes{1, 8, -1, 1, 7}) == bytes{0, 0, 0, -2, -128}));
  BOOST_TEST(bool((x >> bytes{8, 3, 100, 1, -1}) == bytes{-1, -1, 0, 63, 0}));
  BOOST_TEST(bool(popcount(x) == bytes{1, 8, 2, 7, 1}));
  using words = tensor<std::uint64_t, dims<3>>;
  BOOST_TEST(bool(floor_mod(words{7, ~std::uint64_t{0}, 3}, words{4, 10, 5}) == words{3, 5, 3}));
  BOOST_TEST(bool(popcount(words{~std::uint64_t{0}, 0, 3}) == words{64, 0, 2}));
  using flags = tensor<bool, dims<4>>;
  const flags p{true, true, false, false}, q{true, false, true, false};
  BOOST_TEST(bool(((p & q) | ~(p ^ q)) == flags{true, false, false, true}));
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { eval(floor_mod(x, 0)); }), "division by zero");
}

// Integers and conditions inside of an expression that is differentiated twice.
BOOST_AUTO_TEST_CASE(bits_and_predicates_select_gradients) {
  graph g;
  const auto x = placeholder<double, dims<4>>(g);
  const auto i = placeholder<std::int32_t, dims<4>>(g);
  const auto y = select((i & 1) == 0 || is_nan(x), x * x * x, floor_mod(x, 1.5) + x);
  const auto [first] = gradients(y, x);
  const auto [second] = gradients(first, x);
  session s{g, {.threads = 1}};
  const auto [d, dd] = s.run(fetch(first, second), with(x, tensor<double, dims<4>>{2, 2, -1, 3}),
                             with(i, tensor<std::int32_t, dims<4>>{4, 5, -2, -1}));
  BOOST_TEST((d(0) == 12 && d(1) == 2 && d(2) == 3 && d(3) == 2));
  BOOST_TEST((dd(0) == 12 && dd(1) == 0 && dd(2) == -6 && dd(3) == 0));
}

BOOST_AUTO_TEST_CASE(predicates_and_replacements) {
  const auto check = []<class T>(T) {
    using limits = std::numeric_limits<T>;
    const tensor<T, dims<5>> x{0, limits::quiet_NaN(), limits::infinity(), -limits::infinity(), limits::max()};
    using flags = tensor<bool, dims<5>>;
    BOOST_TEST(bool(is_nan(x) == flags{false, true, false, false, false}));
    BOOST_TEST(bool(is_inf(x) == flags{false, false, true, true, false}));
    BOOST_TEST(bool(is_finite(x) == flags{true, false, false, false, true}));
  };
  check(float());
  check(double());
  auto x = operand<double>("x");
  x.data()[x.elements() - 1] = std::nan("");
  right().check("nan_to_num", nan_to_num(x));
  right().check("nan_to_num3", nan_to_num(x, 1, 2, -3));
  graph g;
  const auto p = placeholder<double, column>(g, "p");
  const auto [d] = gradients(sum(square(nan_to_num(p, 1, 2, -3) + 1)), p);
  session s{g, {.threads = 1}};
  right().check("nan_to_num3.gradient", s.eval(d, with(p, x)));
}

BOOST_AUTO_TEST_CASE(extents) {
  const tensor<float, dims<0, 3>> none;
  BOOST_TEST(eval(atan2(none, none)).elements() == 0u);
  const tensor<float, dims<1, 1, 1, 1, 1, 1, 1, 2>> wide{1, -1};
  BOOST_CHECK_CLOSE(eval(atan(wide)).data()[1], -std::atan(1.0), 1e-5);
  const tensor<float> scalar{4};
  BOOST_TEST(float(eval(hypot(scalar, 3))) == 5.f);
  const tensor<float, dims<2, 1>> a{3, 4};
  BOOST_TEST(bool(floor_mod(a, tensor<float, dims<3>>{2, -2, 5}) == tensor<float, dims<2, 3>>{1, -1, 3, 0, 0, 4}));
}
