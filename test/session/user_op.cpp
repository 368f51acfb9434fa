#include "errors.hpp"
#include "ops/gradient_check.hpp"

// The whole of a user's own operation: a formula, its gradient, and a function to call it by.
struct softsign {
  static constexpr const char* name = "softsign";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static V apply(V x) {
    return x / (V(1) + weft::math::abs(x));
  }
  template <class V>
  WEFT_HOST_DEVICE static V gradient(V g, V x, V) {
    const V d = V(1) + weft::math::abs(x);
    return g / (d * d);
  }
};
auto soft(const weft::Expression auto& x) { return weft::elementwise<softsign>(x); }

// Of two operands, with a condition and numbers in its gradients.
struct clipped_product {
  static constexpr const char* name = "clipped_product";
  template <class V>
  WEFT_HOST_DEVICE static V apply(V a, V b) {
    return a * weft::math::minimum(b, V(1));
  }
  template <class V>
  WEFT_HOST_DEVICE static V gradient_a(V g, V, V b, V) {
    return g * weft::math::minimum(b, V(1));
  }
  template <class V>
  WEFT_HOST_DEVICE static V gradient_b(V g, V a, V b, V) {
    return g * a * weft::math::select(b < V(1), V(1), V(0));
  }
};

// One without a gradient.
struct heaviside {
  static constexpr const char* name = "heaviside";
  static constexpr bool not_differentiable = true;
  template <class V>
  WEFT_HOST_DEVICE static V apply(V x) {
    return weft::math::select(x > V(0), V(1), V(0));
  }
};

// Every function of weft::math and every operator, in a formula and in its gradient.
struct all_functions {
  static constexpr const char* name = "all_functions";
  static constexpr bool floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static V apply(V x) {
    namespace m = weft::math;
    const V q = x * x, p = q + V(1);
    return m::exp(x) + m::expm1(x) + m::tanh(x) + m::sigmoid(x) + p * m::sqrt(p) - m::pow(p, V(2.5)) +
           x * (m::log(p) - m::log1p(q) / V(2) + m::abs(x) + m::sign(x) + m::floor(x) + m::maximum(x, V(0.3)) +
                m::minimum(x, V(0.4)) + m::select(x != V(1), x, V(0)));
  }
  template <class V>
  WEFT_HOST_DEVICE static V gradient(V g, V x, V) {
    namespace m = weft::math;
    const V q = x * x, p = q + V(1), t = m::tanh(x), s = m::sigmoid(x);
    const V smooth = m::exp(x) + m::expm1(x) + V(1) + (V(1) - t * t) + s * (V(1) - s) + V(3) * x * m::sqrt(p) -
                     V(5) * x * m::pow(p, V(1.5)) + m::log(p) - m::log1p(q) / V(2) + q / p;
    const V edges = V(2) * m::abs(x) + m::sign(x) + m::floor(x) + m::maximum(x, V(0.3)) + m::minimum(x, V(0.4)) +
                    m::select(!(x < V(0.3)), x, V(0)) + m::select(x <= V(0.4), x, V(0)) +
                    m::select(x != V(1), V(2) * x, V(0));
    return g * (smooth + m::select(x > V(-9), edges, -edges) + m::select(x >= V(9), V(1), V(0)));
  }
};

using namespace weft;

BOOST_AUTO_TEST_CASE(every_function_of_math) {
  gradient_check check;
  check("all functions", elementwise<all_functions>(check.input<dims<2, 3>>()), 3);
  graph g;
  const symbol x = placeholder<double>(g, "x").erased();
  g.use(primitives<double>);
  session s{g, {.threads = 1}};
  const double tiny = s.eval(node<double>(math::expm1(x)), with(node<double>(x), 1e-12));
  BOOST_CHECK_CLOSE(tiny, 1e-12, 1e-9);  // e^x - 1 keeps its digits in symbols too
}

BOOST_AUTO_TEST_CASE(gradients_of_any_order) {
  gradient_check check;
  const auto x = check.input<dims<2, 3>>();
  const auto w = check.input<dims<3>>();
  check("softsign", soft(x), 3);
  check("fused among others", tanh(soft(x * w) + 0.5) * x);
  check("inside a reduction", mean<0>(soft(x) * w));
  check("two operands", elementwise<clipped_product>(x, w), 3);
}

// Whatever else is fused with it, and reduced.
BOOST_AUTO_TEST_CASE(an_operation_without_gradient_is_an_error_where_one_is_asked_for) {
  graph g;
  const auto x = placeholder<float, dims<2, 3>>(g, "x");
  const auto y = placeholder<float, dims<3>>(g, "y");
  const auto z = weft::elementwise<heaviside>(x);
  const auto refused = [](const auto& of, const auto& by) {
    CHECK_SAYS(test::failure(error_code::unimplemented, [&] { static_cast<void>(gradients(of, by)); }),
               "heaviside(a0)");
  };
  refused(z, x), refused(z * y, x), refused(z * x, x);
  refused(sum(z), x), refused(sum(z * y), x), refused(max(z), x), refused(max(z * y), x);
  refused(std::get<0>(gradients(sum(z * y), y)), x);

  const auto [dy] = gradients(sum(z * y), y);
  const auto [chosen] = gradients(max(select(z > 0, y, 1)), x);  // a condition passes no gradient
  const auto [compared] = gradients(max(cast<float>(x > y)) + min(cast<float>(x > y)), x);
  session s{g, {.threads = 1}};
  const auto [a, b, c] = s.run(fetch(dy, chosen, compared), with(x, tensor<float, dims<2, 3>>{1, -1, 2, 3, -4, 5}),
                               with(y, tensor<float, dims<3>>{1, 2, 3}));
  BOOST_CHECK(a(0) == 2 && a(1) == 0 && a(2) == 2);
  for (const float e : b) BOOST_CHECK_EQUAL(e, 0);
  for (const float e : c) BOOST_CHECK_EQUAL(e, 0);
}

BOOST_AUTO_TEST_CASE(without_a_graph) {
  const tensor<float, dims<2>> x{1, -3};
  const auto y = eval(soft(x) * 4.0f);
  BOOST_CHECK_EQUAL(y(0), 2);
  BOOST_CHECK_EQUAL(y(1), -3);
}

BOOST_AUTO_TEST_CASE(in_a_session) {
  graph g;
  const auto w = variable<float, dims<3>>(g, "w", tensor<float, dims<3>>{1, 2, -3});
  const auto loss = sum(soft(w));
  const auto train = gradient_descent{.learning_rate = 1}.minimize(loss);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(loss, train));
  const auto [cost, none] = step();
  BOOST_CHECK_CLOSE(cost, 0.5f + 2.0f / 3 - 0.75f, 1e-4);
  BOOST_CHECK_CLOSE(s.eval(w)(2), -3 - 1.0f / 16, 1e-4);
  CHECK_SAYS(explain(step), "softsign(a0)");
}
