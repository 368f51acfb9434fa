// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <string>
#include <tuple>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/graph/checkpointed.hpp>
#include <weft/graph/derivatives.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/session/step_plan.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "ops/gradient_check.hpp"

using namespace weft;
using test::failure;

namespace {

using vec3 = dims<3>;
using many = dims<dyn<"n">, 3>;

template <class A, class B>
void check_close(const A& a, const B& b, double tolerance = 1e-12) {
  BOOST_REQUIRE(a.extents() == b.extents());
  for (std::size_t i = 0; i < a.elements(); ++i) BOOST_CHECK_SMALL(a.data()[i] - b.data()[i], tolerance);
}

const tensor<double, vec3> point{0.3, -0.7, 1.2}, toward{1, -2, 0.5};

/// A function of two rows, [2], of x [3].
auto curve(const Expression auto& x) {
  const tensor<double, dims<2, 3>> w{1, -2, 3, 0.5, 4, -1};
  return sum<1>(w * expand_dims<0>(sin(x) * x));
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_with_jacobians_are_those_of_the_jacobian) {
  graph g;
  const auto x = placeholder<double, vec3>(g, "x");
  const auto y = let(curve(x));
  const auto j = jacobian(y, x);
  static_assert(std::is_same_v<dims_t<std::remove_const_t<decltype(j)>>, dims<2, 3>>);
  const auto along = jacobian_vector_product(y, x, toward);
  const auto [against] = vector_jacobian_product(y, tensor<double, dims<2>>{2, -3}, x);
  session s{g};
  const auto [all, right, left] = s.run(fetch(j, along, against), with(x, point));
  const tensor<double, dims<2, 3>> w{1, -2, 3, 0.5, 4, -1};
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t k = 0; k < 3; ++k) {
      const double t = point(k);
      BOOST_CHECK_CLOSE(all(i, k), w(i, k) * (std::cos(t) * t + std::sin(t)), 1e-10);
    }
  check_close(right, sum<1>(all * expand_dims<0>(toward)));
  check_close(left, sum<0>(all * tensor<double, dims<2, 1>>{2, -3}));
}

BOOST_AUTO_TEST_CASE(hessians_are_symmetric_and_agree_with_their_products) {
  graph g;
  const auto x = placeholder<double, vec3>(g, "x");
  const auto loss = prod(curve(x) + 3.0);
  const auto h = hessian(loss, x);
  const auto hv = hessian_vector_product(loss, x, toward);
  const auto twice = jacobian_vector_product(jacobian_vector_product(loss, x, toward), x, toward);
  session s{g};
  const auto [all, product, curvature] = s.run(fetch(h, hv, twice), with(x, point));
  check_close(all, eval(transpose<1, 0>(all)));
  check_close(product, sum<1>(all * expand_dims<0>(toward)));
  BOOST_CHECK_CLOSE(double(curvature), double(sum(product * toward)), 1e-9);
}

BOOST_AUTO_TEST_CASE(rows_have_jacobians_of_their_own) {
  graph g;
  const auto x = placeholder<double, many>(g, "x");
  const auto w = variable<double, dims<3, 2>>(g, "w", tensor<double, dims<3, 2>>{1, 2, -3, 4, 5, -6});
  const auto y = let(tanh(matmul(x * x, w)));
  const auto of_rows = batch_jacobian(y, x);
  static_assert(std::is_same_v<dims_t<std::remove_const_t<decltype(of_rows)>>, dims_t<dims<dyn<"n">, 2, 3>>>);
  const auto one = placeholder<double, dims<1, 3>>(g, "one");
  const auto of_one = jacobian(let(tanh(matmul(one * one, w))), one);
  session s{g};
  const tensor<double, many> in(shape(2, 3), {0.1, -0.2, 0.3, 0.2, 0.4, -0.1});
  const auto all = s.eval(of_rows, with(x, in));
  for (std::size_t r = 0; r < 2; ++r) {
    const auto right = s.eval(of_one, with(one, tensor<double, dims<1, 3>>{in(r, 0), in(r, 1), in(r, 2)}));
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < 3; ++k) BOOST_CHECK_CLOSE(all(r, i, k), right(0, i, 0, k), 1e-10);
  }
}

BOOST_AUTO_TEST_CASE(a_jacobian_of_one_value_has_the_axes_of_the_operand) {
  graph g;
  using D = dims<1, 2, 1, 1, 1, 1, 1, 2>;
  const auto x = placeholder<double, D>(g, "x");
  const auto j = jacobian(let(sum(x * x)), x);
  static_assert(std::is_same_v<dims_t<std::remove_const_t<decltype(j)>>, D>);
  session s{g};
  BOOST_CHECK_EQUAL(s.eval(j, with(x, tensor<double, D>{1, 2, 3, 4})).data()[3], 8.0);
}

BOOST_AUTO_TEST_CASE(what_does_not_depend_has_zeros) {
  graph g;
  const auto x = placeholder<float, vec3>(g, "x");
  const auto z = placeholder<float, dims<2>>(g, "z");
  session s{g};
  const auto y = let(z * z);
  const auto [product] = vector_jacobian_product(y, y, x);
  const auto [j, v, p] = s.run(fetch(jacobian(y, x), jacobian_vector_product(y, x, x), product),
                               with(x, tensor<float, vec3>{1, 2, 3}), with(z, tensor<float, dims<2>>{1, 2}));
  BOOST_CHECK_EQUAL(float(sum(abs(j))) + float(sum(abs(v))) + float(sum(abs(p))), 0.0f);
}

BOOST_AUTO_TEST_CASE(custom_gradients_replace_those_of_the_function) {
  graph g;
  const auto x = placeholder<double, vec3>(g, "x");
  const auto through = custom_gradient([](auto v) { return floor(v); }, [](auto up, auto, auto) { return up; }, x);
  const auto a = placeholder<double, vec3>(g, "a");
  const auto weighed = custom_gradient([](auto p, auto q) { return p * q; },
                                       [](auto up, auto y, auto, auto) { return std::tuple(2.0 * up, y * up); }, x, a);
  const auto [straight] = gradients(through * through, x);
  const auto [dx, da] = gradients(weighed, x, a);
  session s{g};
  const auto [first, second, third] = s.run(fetch(straight, dx, da), with(x, point), with(a, toward));
  check_close(first, eval(2.0 * floor(point)));
  check_close(second, tensor<double, vec3>{2, 2, 2});
  check_close(third, eval(point * toward));
}

BOOST_AUTO_TEST_CASE(custom_gradients_can_be_differentiated) {
  gradient_check check;
  const auto x = check.input<many>(-3, 3, shape(2, 3));
  check("softplus",
        custom_gradient([](auto v) { return maximum(v, 0.0) + log1p(exp(-abs(v))); },
                        [](auto up, auto, auto v) { return up * sigmoid(v); }, x),
        3);
}

BOOST_AUTO_TEST_CASE(custom_gradients_read_other_values) {
  gradient_check check;
  const auto x = check.input<dims<2, 3>>(-1, 1);
  const auto w = check.input<vec3>(-1, 1);
  // The gradient of p * q * r by the values that surround it, not by its parameters.
  const auto product = [](auto p, auto q, auto r) {
    return custom_gradient(
        [](auto a, auto b, auto c) { return a * b * c; },
        [=](auto up, auto, auto, auto, auto) { return std::tuple(up * q * r, up * p * r, up * p * q); }, p, q, r);
  };
  const auto u = let(exp(w));
  check("in a graph", product(let(sum<0>(x)), u, w));
  const auto body = [&](auto h, auto row) { return product(let(sin(h)), let(row + u), w); };
  const auto looped = fold(body, w, rows(x));
  check("in a scan", looped);
  const auto [count, repeated] =
      while_loop([](auto i, auto) { return i < 3; }, [&](auto i, auto h) { return std::tuple(i + 1, body(h, u)); },
                 {.max_iterations = 4}, tensor<std::int32_t>(0), w);
  check("in a loop", repeated);
  const auto branch = [&](auto row) {
    return cond(sum(row) > 0.0, [&] { return product(row, w, u); }, [&] { return row * w; });
  };
  check("in branches of a scan", map(branch, rows(x)));
  check("in a gradient of its own",
        custom_gradient([](auto v) { return exp(v); },
                        [&](auto up, auto y, auto) { return product(let(up + 0.0 * u), y, let(0.0 * w + 1.0)); }, w));
  check("recomputed", checkpointed([&](auto v) { return product(v, u, w); }, let(w * 2.0)));
}

BOOST_AUTO_TEST_CASE(checkpointed_functions_have_the_gradients_of_plain_ones) {
  gradient_check check;
  const auto x = check.input<many>(-1, 1, shape(2, 3));
  const auto w = check.input<dims<3, 3>>(-1, 1);
  const auto outside = exp(x);
  check("one function", checkpointed([&](auto v) { return tanh(matmul(v, w)) * outside; }, x));
  check("in a function", checkpointed(
                             [&](auto v, auto u) {
                               const auto h = checkpointed([&](auto t) { return sigmoid(matmul(t, w)); }, v);
                               return h * sin(u) + v;
                             },
                             x * 2.0, outside));
  check("the operand itself", checkpointed([](auto v) { return v; }, x));
  const tensor<std::int32_t, dims<2>> at{1, 0};
  check("by index and branch", checkpointed(
                                   [&](auto v) {
                                     const auto picked = gather(w, at);
                                     return cond(
                                         sum(v) > 100.0, [](auto p, auto) { return p * p; },
                                         [](auto p, auto q) { return p + sum<0>(q); }, let(sin(v)), picked);
                                   },
                                   x));
}

BOOST_AUTO_TEST_CASE(checkpointed_training_needs_less_memory_and_computes_the_same) {
  constexpr int layers = 12;
  constexpr std::size_t activation = 512 * 64 * sizeof(float);
  std::vector<float> losses[2];
  std::size_t bytes[2];
  for (const bool again : {false, true}) {
    graph g;
    const auto x = placeholder<float, dims<512, 64>>(g, "x");
    auto h = let(x * 1.0f);
    for (int k = 0; k < layers; ++k) {
      const auto block = [&](auto v) {
        const auto w = variable<float, dims<64, 64>>(g, str_cat({"w", k}), init::glorot_uniform{});
        const auto u = variable<float, dims<64, 64>>(g, str_cat({"u", k}), init::glorot_uniform{});
        return v + matmul(dropout(sin(tanh(matmul(v, w))), 0.5), u);
      };
      if (again)
        h = checkpointed(block, h);
      else
        h = let(block(h));
    }
    const auto loss = mean(square(h));
    const auto train = adam{.learning_rate = 0.01}.minimize(loss);
    session s{g, {.threads = 1}};
    auto step = s.prepare(fetch(loss, train), feed(x));
    tensor<float, dims<512, 64>> in;
    for (std::size_t i = 0; i < in.elements(); ++i) in.data()[i] = std::sin(static_cast<float>(i));
    for (int i = 0; i < 3; ++i) losses[again].push_back(float(std::get<0>(step(in))));
    bytes[again] = step.prepared().plan().arena_bytes();
  }
  BOOST_TEST(losses[0] == losses[1], boost::test_tools::per_element());
  BOOST_CHECK_GE(bytes[0], 2 * layers * activation);
  BOOST_CHECK_LE(bytes[1], (layers + 8) * activation);
}

BOOST_AUTO_TEST_CASE(graphs_must_be_the_same) {
  graph g, other;
  const auto x = placeholder<float, vec3>(g, "x");
  const auto y = placeholder<float, vec3>(other, "y");
  const std::string why = failure(error_code::invalid_argument,
                                  [&] { (void)checkpointed([&](auto v) { return v * 2.0f; }, x + 0.0f * y); });
  BOOST_CHECK_MESSAGE(test::contains(why, "different graphs"), why);
}
