// SPDX-License-Identifier: BSL-1.0
#include "errors.hpp"
#include "functions.hpp"
#include "ops/gradient_check.hpp"

using namespace weft;

namespace {

template <class F>
void unary(const std::string& name, F f, double low = -2, double high = 2, int order = 2) {
  gradient_check check;
  check(name, f(check.input<dims<2, 3>>(low, high)), order);
}

/// Every way in which two operands meet. The kernels are the same for all: extents are no part of their types.
template <class F>
void binary(const std::string& name, F f, double low = -2, double high = 2, int order = 2) {
  const auto pair = [&]<class A, class B>(const std::string& how, A, B) {
    gradient_check check;
    const auto a = check.input<A>(low, high);
    check(name + " " + how, f(a, check.input<B>(low, high)), order);
  };
  pair("of equal extents", dims<2, 3>{}, dims<2, 3>{});
  pair("with a row", dims<2, 3>{}, dims<3>{});
  pair("of a row", dims<3>{}, dims<2, 3>{});
  pair("with a column", dims<2, 3>{}, dims<2, 1>{});
  pair("with a scalar", dims<2, 3>{}, dims<>{});
  pair("of a scalar", dims<>{}, dims<2, 3>{});
  pair("of a column and a row", dims<2, 1>{}, dims<1, 3>{});
  pair("of a column and a middle axis", dims<2, 1, 2>{}, dims<3, 1>{});
  pair("of one element", dims<1>{}, dims<1, 1>{});
}

}  // namespace

BOOST_AUTO_TEST_CASE(functions_of_one_operand) {
  unary("negate", [](auto x) { return -x; });
  functions::each([]<class F>(F, const functions::row& of) {
    unary(F::name, [](auto x) { return elementwise<F>(x); }, of.low, of.high, of.order);
  });
}

BOOST_AUTO_TEST_CASE(functions_of_two_operands_in_every_broadcast) {
  binary("add", [](auto a, auto b) { return a + b; });
  binary("subtract", [](auto a, auto b) { return a - b; });
  binary("multiply", [](auto a, auto b) { return a * b; }, -2, 2, 3);
  binary("divide", [](auto a, auto b) { return a / b; }, 0.5, 2, 3);
  binary("pow", [](auto a, auto b) { return pow(a, b); }, 0.5, 2);
  binary("maximum", [](auto a, auto b) { return maximum(a, b); });
  binary("minimum", [](auto a, auto b) { return minimum(a, b); });
  binary("leaky_relu", [](auto a, auto b) { return leaky_relu(a, b); });
  binary("elu", [](auto a, auto b) { return elu(a, b); });
  binary("select", [](auto a, auto b) { return select(a < b, a * b, b); });
}

BOOST_AUTO_TEST_CASE(numbers_as_operands) {
  unary("2 * x - 1", [](auto x) { return 2 * x - 1; });
  unary("1 / x", [](auto x) { return 1 / x; }, 0.5, 2);
  unary("pow(x, 3)", [](auto x) { return pow(x, 3); }, -2, 2, 3);
  unary("pow(2, x)", [](auto x) { return pow(2.0, x); });
  unary("maximum(x, 0.3)", [](auto x) { return maximum(x, 0.3); });
  unary("max(x, 0.3) * min(1, x)", [](auto x) { return max(x, 0.3) * min(1, x); });
  unary("leaky_relu(x)", [](auto x) { return leaky_relu(x) * x; });
  unary("leaky_relu(x, 3)", [](auto x) { return leaky_relu(x, 3) * x; });
  unary("elu(x, 0.3)", [](auto x) { return elu(x, 0.3); });
  unary("select(x > 0.1, x, 0.5)", [](auto x) { return select(x > 0.1, square(x), 0.5); });
}

BOOST_AUTO_TEST_CASE(a_condition_broadcasts_too) {
  gradient_check check;
  const auto p = check.fixed(tensor<bool, dims<2, 1>>{true, false});
  const auto a = check.input<dims<3>>();
  const auto b = check.input<dims<>>();
  check("select", select(p, a * a, b * b));
}

// A value that is computed in floats is compared with the formula: differences of floats are too coarse.
BOOST_AUTO_TEST_CASE(a_cast_converts_the_gradient_back) {
  graph g;
  const auto x = placeholder<double, dims<3>>(g);
  const auto n = placeholder<std::int32_t, dims<3>>(g);
  const auto y = sum(square(cast<float>(x)) * cast<float>(n));
  const auto [dx] = gradients(y, x);
  const auto [ddx] = gradients(dx, x);
  static_assert(std::is_same_v<value_t<decltype(dx)>, double>);
  session s{g, {.threads = 1}};
  const tensor<double, dims<3>> at{1, -2, 0.5};
  const tensor<std::int32_t, dims<3>> of{3, 5, -7};
  const auto [first, second] = s.run(fetch(dx, ddx), with(x, at), with(n, of));
  for (int i = 0; i < 3; ++i) {
    BOOST_CHECK_EQUAL(first(i), 2 * at(i) * of(i));
    BOOST_CHECK_EQUAL(second(i), 2 * of(i));
  }
}

BOOST_AUTO_TEST_CASE(powers_of_zero_have_gradients_of_any_order) {
  graph g;
  const auto x = placeholder<double>(g, "x");
  // The derivatives of x^n at 0: n! for the n-th, 0 for all others.
  const auto check = [&](double n, double first, double second, double third, double fourth) {
    const auto [d1] = gradients(pow(x, n), x);
    const auto [d2] = gradients(d1, x);
    const auto [d3] = gradients(d2, x);
    const auto [d4] = gradients(d3, x);
    session s{g, {.threads = 1}};
    const auto [a, b, c, d] = s.run(fetch(d1, d2, d3, d4), with(x, 0.0));
    BOOST_TEST_CONTEXT("x to the power " << n) {
      BOOST_CHECK_EQUAL(a, first);
      BOOST_CHECK_EQUAL(b, second);
      BOOST_CHECK_EQUAL(c, third);
      BOOST_CHECK_EQUAL(d, fourth);
    }
  };
  check(0, 0, 0, 0, 0);
  check(1, 1, 0, 0, 0);
  check(2, 0, 2, 0, 0);
  check(3, 0, 0, 6, 0);
}

// Through operations of a type that neither the loss has nor what it is differentiated by.
BOOST_AUTO_TEST_CASE(gradients_pass_through_another_precision) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g);
  const auto [dx] = gradients(sum(cast<float>(exp(cast<double>(x)))), x);
  const auto [ddx] = gradients(dx, x);
  const auto t = placeholder<double, dims<2>>(g);
  const auto p = softmax(cast<float>(t));
  const auto [dt] = gradients(sum(cast<double>(p * p)), t);
  session s{g, {.threads = 1}};
  const auto [first, second, third] =
      s.run(fetch(dx, ddx, dt), with(x, tensor<float, dims<2>>{0, 1}), with(t, tensor<double, dims<2>>{0, 1}));
  BOOST_CHECK_CLOSE(first(1), std::exp(1.0), 1e-4);
  BOOST_CHECK_CLOSE(second(1), std::exp(1.0), 1e-4);
  const double p0 = 1 / (1 + std::exp(1.0)), p1 = 1 - p0;
  BOOST_CHECK_CLOSE(third(0), 2 * p0 * p1 * (p0 - p1), 1e-3);
}

BOOST_AUTO_TEST_CASE(training_passes_through_another_precision) {
  graph g;
  const auto w = variable<float, dims<2>>(g, "w", tensor<float, dims<2>>{0, 1});
  const auto loss = sum(square(cast<float>(softmax(cast<double>(w)))));
  const auto train = gradient_descent{.learning_rate = 1}.minimize(loss);
  session s{g, {.threads = 1}};
  s.run(fetch(train));
  const double p0 = 1 / (1 + std::exp(1.0)), p1 = 1 - p0;
  BOOST_CHECK_CLOSE(s.eval(w)(0), 2 * p0 * p1 * (p1 - p0), 1e-3);
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { static_cast<void>(gradient_descent{}.minimize(cast<double>(loss))); }),
             "the loss is double, but depends on no variable of that type: w is float");
}

BOOST_AUTO_TEST_CASE(ties_and_edges_follow_tensorflow) {
  graph g;
  const auto a = placeholder<double, dims<3>>(g), b = placeholder<double, dims<3>>(g);
  const auto [max_a, max_b] = gradients(maximum(a, b), a, b);
  const auto [min_a, min_b] = gradients(minimum(a, b), a, b);
  const auto [d_relu] = gradients(relu(a), a);
  const auto [d_abs] = gradients(abs(a), a);
  const auto [pow_a, pow_b] = gradients(pow(a, b), a, b);
  session s{g, {.threads = 1}};
  const tensor<double, dims<3>> x{0, -1, 2}, y{0, 3, 3};
  const auto [xa, xb, na, nb, r, m, pa, pb] =
      s.run(fetch(max_a, max_b, min_a, min_b, d_relu, d_abs, pow_a, pow_b), with(a, x), with(b, y));
  BOOST_CHECK_EQUAL(xa(0), 1);
  BOOST_CHECK_EQUAL(xb(0), 0);
  BOOST_CHECK_EQUAL(na(0), 1);
  BOOST_CHECK_EQUAL(nb(0), 0);
  BOOST_CHECK_EQUAL(r(0), 0);
  BOOST_CHECK_EQUAL(m(0), 0);
  BOOST_CHECK_EQUAL(pb(0), 0);
  BOOST_CHECK_EQUAL(pb(1), 0);  // the base is negative
  BOOST_CHECK_CLOSE(pb(2), 8 * std::log(2.0), 1e-12);
  BOOST_CHECK_CLOSE(pa(1), 3.0, 1e-12);
  const double nan = std::nan("");
  const auto [of_a, of_b, least_a, least_b, magnitude] =
      s.run(fetch(max_a, max_b, min_a, min_b, d_abs), with(a, tensor<double, dims<3>>{nan, 1, nan}),
            with(b, tensor<double, dims<3>>{1, nan, nan}));
  for (int i = 0; i < 3; ++i) BOOST_CHECK(of_a(i) == 0 && of_b(i) == 1 && least_a(i) == 0 && least_b(i) == 1);
  BOOST_CHECK(std::isnan(magnitude(0)) && magnitude(1) == 1);
}
